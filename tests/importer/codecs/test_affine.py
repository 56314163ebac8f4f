"""Affine quantization: layout, and the edges that MLX's formula has."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.base import Part, Span
from importer.codecs.reference import affine, floats, packing
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, Mode, QuantSpec
from store.errors import UnsupportedError

INT4 = QUANT_TYPES["int4"]
WIDTHS = (2, 3, 4, 5, 6, 8)


def quantized(values, dtype="F32", spec=INT4):
    """Codes, scale and bias of one group."""
    group = np.resize(np.array(values, np.float32), spec.group_size)[None]
    group = floats.rounded(group, dtype)
    with np.errstate(all="ignore"):
        codes, *small = affine.encode(group, dtype, spec)
    return codes[0], *(float(floats.widen(part, dtype)[0]) for part in small)


def restored(values, dtype="F32", spec=INT4):
    group = np.resize(np.array(values, np.float32), spec.group_size)
    codec = codec_for(spec, dtype)
    encoded = codec.encode(memoryview(floats.narrow(group, dtype)).cast("B"), NUMPY)
    made = codec.decode(encoded.parts, group.shape, range(group.size), NUMPY)
    return floats.widen(np.frombuffer(made, floats.STORED[dtype]), dtype)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_parts_are_words_scales_and_biases(bits, group_size):
    codec = codec_for(QuantSpec(f"int{bits}", Mode.AFFINE, bits, group_size), "BF16")

    assert codec.parts((3, 5, 256)) == (
        Part("", "U32", (3, 5, 8 * bits)),
        Part(".scale", "BF16", (3, 5, 256 // group_size)),
        Part(".bias", "BF16", (3, 5, 256 // group_size)),
    )
    assert codec.unit((3, 5, 256)) == group_size


def test_spans_are_words_scales_and_biases_of_some_groups():
    codec = codec_for(QUANT_TYPES["int3"], "F32")

    assert codec.spans((2, 256), range(64, 320)) == (
        Span(64 * 3 // 8, 256 * 3 // 8),
        Span(1 * 4, 4 * 4),
        Span(1 * 4, 4 * 4),
    )


def test_other_numbers_of_scales_are_refused():
    codec = codec_for(INT4, "F32")
    words, scales, biases = codec.encode(bytes(4 * 64), NUMPY).parts

    with pytest.raises(ValueError, match="int4: 2 groups with other numbers of scales"):
        codec.decode([words, scales[:4], biases], (64,), range(64), NUMPY)


def test_other_groups_are_unsupported():
    with pytest.raises(UnsupportedError) as caught:
        codec_for(QuantSpec("int4", Mode.AFFINE, 4, 48), "BF16")
    assert caught.value.code == "E_QUANT_GROUP"


@pytest.mark.parametrize(
    ("source", "small"),
    [
        *(("BF16", "BF16"), ("F16", "F16"), ("F32", "F32")),
        *(("F64", "F32"), ("F8_E4M3", "BF16"), ("F8_E5M2", "BF16")),
    ],
)
def test_scales_have_the_dtype_of_the_values(source, small):
    codec = codec_for(INT4, source)

    assert [part.dtype for part in codec.parts((1, 32))] == ["U32", small, small]
    assert codec.value_dtype == small


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_first_code_is_in_the_lowest_bits(bits):
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 1 << bits, (3, 64), np.uint8)

    words = packing.pack(codes, bits)

    for row, packed in zip(codes, words, strict=True):
        number = sum(int(code) << (bits * place) for place, code in enumerate(row))
        assert int.from_bytes(packed.astype("<u4").tobytes(), "little") == number
    assert np.array_equal(packing.unpack(words, bits), codes)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_stay_zero(zero):
    codes, scale, bias = quantized([zero])

    assert (set(codes), scale, bias) == ({0}, np.float32(-1e-7), 0)
    assert not np.signbit(bias)
    assert not restored([zero]).any()


@pytest.mark.parametrize("constant", [1.0, -1.0, 1e-6, 1e30, -3e38])
def test_a_constant_is_kept_exactly(constant):
    codes, _, bias = quantized([constant])

    assert (set(codes), np.float32(bias)) == ({0}, np.float32(constant))


def test_a_constant_below_half_a_step_is_lost():
    codes, scale, bias = quantized([5e-8])

    assert (set(codes), scale, bias) == ({0}, np.float32(-1e-7), 0)


def test_of_two_ends_equally_far_the_upper_is_the_bias():
    codes, scale, bias = quantized([1, -1])

    assert (codes[0], bias) == (0, 1)
    assert scale == np.float32(1 / np.float32(-7))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_end_further_from_zero_is_kept_exactly(sign):
    codes, scale, bias = quantized(np.linspace(0.5, 2, 32) * sign)

    assert bias == 2 * sign
    assert np.sign(scale) == -sign
    assert (codes[-1], codes[0]) == (0, 15)


def test_zero_falls_on_a_code():
    values = restored([-0.3, 0.0, 0.8])

    assert abs(values[1]) < 1e-7


def test_halves_are_rounded_to_even():
    # From 15 down in steps of 1, since 0 is code 15: halves are exact.
    values = [15.0, 0.0, *(15 - place - 0.5 for place in range(14))]
    codes, scale, bias = quantized(values)

    assert (scale, bias) == (-1, 15)
    assert codes[2:16].tolist() == [0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14]


def test_codes_are_made_before_the_scale_is_rounded():
    rng = np.random.default_rng(1)
    group = floats.rounded(rng.standard_normal(64).astype(np.float32), "BF16")

    codes, scale, bias = quantized(group, "BF16", QUANT_TYPES["int8"])

    again = np.clip(np.rint((group - np.float32(bias)) / np.float32(scale)), 0, 255)
    assert bias == group[np.argmax(np.abs(group))]
    assert (again != codes).any()


def test_a_range_that_overflows_is_not_a_number():
    values = restored([3e38, -3e38])

    assert np.isnan(values).all()


@pytest.mark.parametrize(
    ("dtype", "nan"), [("BF16", 0x7FC0), ("F16", 0x7E00), ("F32", 0x7FC00000)]
)
@pytest.mark.parametrize("number", [np.inf, -np.inf, -np.nan])
def test_the_scale_of_what_has_none_is_the_same_nan_on_every_machine(dtype, nan, number):
    group = np.full((1, 32), number, np.float32)
    with np.errstate(all="ignore"):
        codes, scale, _ = affine.encode(group, dtype, INT4)

    assert scale.tolist() == [nan]
    assert not codes.any()


def test_values_are_rounded_after_the_product_and_after_the_sum():
    spec = QUANT_TYPES["int8"]
    scale, bias = floats.narrow(np.array([0.1, 3.0], np.float32), "BF16")
    codes = np.arange(64, dtype=np.uint8)[None]

    decoded = affine.decode(codes, [scale[None], bias[None]], "BF16", spec)[0]

    step, start = (floats.widen(part[None], "BF16")[0] for part in (scale, bias))
    products = floats.rounded(codes[0] * step, "BF16")
    assert np.array_equal(decoded, floats.rounded(products + start, "BF16"))
    assert not np.array_equal(decoded, floats.rounded(codes[0] * step + start, "BF16"))
