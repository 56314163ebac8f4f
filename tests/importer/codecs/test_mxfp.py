"""MXFP4 and MXFP8: layout, scales that are rounded up, and where they wrap around."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.base import Part
from importer.codecs.reference import floats, mxfp
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES

MXFP4, MXFP8 = QUANT_TYPES["mxfp4"], QUANT_TYPES["mxfp8"]


def quantized(spec, values, dtype="F32"):
    """Codes and scale of one group."""
    group = np.resize(np.array(values, np.float32), spec.group_size)[None]
    codes, scales = mxfp.encode(floats.rounded(group, dtype), dtype, spec)
    return codes[0], int(scales[0])


@pytest.mark.parametrize(("spec", "words"), [(MXFP4, 32), (MXFP8, 64)])
@pytest.mark.parametrize("source", ["BF16", "F16", "F32", "F64", "F8_E4M3"])
def test_parts_are_words_and_scales(spec, words, source):
    assert codec_for(spec, source).parts((2, 3, 256)) == (
        Part("", "U32", (2, 3, words)),
        Part(".scale", "U8", (2, 3, 8)),
    )


@pytest.mark.parametrize(
    ("largest", "exponent"), [(6, 0), (6.0000005, 1), (7, 1), (12, 1), (3, -1), (448, 7)]
)
def test_the_scale_of_fp4_is_rounded_up(largest, exponent):
    _, scale = quantized(MXFP4, [largest, 0.1])

    assert scale == 127 + exponent


@pytest.mark.parametrize(
    ("largest", "exponent"), [(448, 0), (449, 1), (1, -8), (2**-119, -127)]
)
def test_the_scale_of_fp8_is_rounded_up(largest, exponent):
    _, scale = quantized(MXFP8, [largest, 0])

    assert scale == 127 + exponent


def test_the_ratio_is_rounded_to_the_dtype_first():
    # A sixth of it is 4/3 of the smallest F16, and becomes that: 8 of it is clipped to 6.
    largest = 8 * 2.0**-24

    assert quantized(MXFP4, [largest], "F16")[1] == 127 - 24
    assert set(quantized(MXFP4, [largest], "F16")[0]) == {7}
    assert quantized(MXFP4, [largest], "F32")[1] == 127 - 23


@pytest.mark.parametrize("spec", [MXFP4, MXFP8])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_have_the_scale_of_one(spec, zero):
    codes, scale = quantized(spec, [zero])

    assert scale == 127
    assert set(codes) == {0x80 if spec is MXFP8 and np.signbit(zero) else 0}


def test_only_fp8_has_a_negative_zero():
    assert quantized(MXFP4, [6, -0.0, -0.1])[0][:3].tolist() == [7, 0, 0]
    assert quantized(MXFP8, [448, -0.0, -0.0001])[0][:3].tolist() == [0x7E, 0x80, 0x80]


def test_the_low_nibble_is_the_even_element():
    codec = codec_for(MXFP4, "F32")
    group = np.resize(np.array([6, -6, 0.5, 1], np.float32), 32)

    words = np.frombuffer(codec.encode(memoryview(group).cast("B"), NUMPY).parts[0], np.uint8)

    assert words[:2].tolist() == [0xF7, 0x21]


def test_a_scale_below_the_smallest_wraps_around_as_in_mlx():
    codes, scale = quantized(MXFP4, [1e-40])

    assert (scale, set(codes)) == (248, {6})
    assert quantized(MXFP8, [2**-120])[1] == 255


@pytest.mark.parametrize("spec", [MXFP4, MXFP8])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_leaves_the_others_a_scale_of_one(spec, number):
    codes, scale = quantized(spec, [number, 1])

    assert scale == 127
    assert codes[1] == (2 if spec is MXFP4 else 0x38)


@pytest.mark.parametrize("spec", [MXFP4, MXFP8])
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_every_scale_is_decoded(spec, dtype):
    scales = np.arange(256, dtype=np.uint8)
    codes = np.full((256, 32), 2 if spec is MXFP4 else 0x38, np.uint8)  # 1

    with np.errstate(all="ignore"):
        decoded = mxfp.decode(codes, [scales], dtype, spec)[:, 0]
        expected = floats.rounded(np.ldexp(np.float32(1), scales.astype(int) - 127), dtype)

    assert np.array_equal(decoded, expected)
    assert np.isinf(decoded[255])
