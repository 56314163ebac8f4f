"""NVFP4: layout, scales in E4M3, and what their range costs."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.base import Part
from importer.codecs.reference import floats, minifloats, nvfp4
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES

NVFP4 = QUANT_TYPES["nvfp4"]


def quantized(values, dtype="F32"):
    """Codes and scale of one group."""
    group = np.resize(np.array(values, np.float32), 16)[None]
    with np.errstate(all="ignore"):
        codes, scales = nvfp4.encode(floats.rounded(group, dtype), dtype, NVFP4)
    return codes[0], int(scales[0])


def test_parts_are_words_and_scales():
    assert codec_for(NVFP4, "F16").parts((7, 48)) == (
        Part("", "U32", (7, 6)),
        Part(".scale", "U8", (7, 3)),
    )


def test_a_row_may_be_a_single_group():
    codec = codec_for(NVFP4, "BF16")
    encoded = codec.encode(memoryview(bytearray(32)), NUMPY)

    assert [len(part) for part in encoded.parts] == [8, 1]


@pytest.mark.parametrize(
    ("largest", "scale"), [(6, 0x38), (12, 0x40), (7, 0x39), (6 * 448, 0x7E), (6 * 2**-9, 1)]
)
def test_the_scale_is_a_sixth_of_the_largest(largest, scale):
    assert quantized([largest, 0])[1] == scale


def test_zeros_have_a_scale_of_zero():
    codes, scale = quantized([0.0, -0.0])

    assert (set(codes), scale) == ({0}, 0)


def test_a_group_below_the_smallest_scale_is_lost():
    codes, scale = quantized([6 * 2**-10, -(2**-12)])

    assert (set(codes), scale) == ({0}, 0)


def test_a_group_above_the_largest_scale_is_clipped():
    codes, scale = quantized([10_000, -10_000, 2688])

    assert (codes[:3].tolist(), scale) == ([7, 15, 7], 0x7E)


@pytest.mark.parametrize("huge", [1e12, 3e38])
def test_what_is_equally_far_from_all_codes_becomes_zero(huge):
    codes, scale = quantized([huge])

    assert (set(codes), scale) == ({0}, 0x7E)


def test_values_are_codes_times_scales_rounded_once():
    codes = np.tile(np.arange(16, dtype=np.uint8), (127, 1))
    scales = np.arange(127, dtype=np.uint8)

    decoded = nvfp4.decode(codes, [scales], "BF16", NVFP4)

    exact = minifloats.E2M1_VALUES[codes] * minifloats.E4M3_VALUES[scales][:, None]
    assert np.array_equal(decoded, floats.rounded(exact, "BF16"))
