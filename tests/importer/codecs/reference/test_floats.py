"""Float formats: exact where they claim it, and rounded as the standard says."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.reference import floats, minifloats
from tests.importer.codecs import corpus

ALL_16 = np.arange(1 << 16, dtype=np.uint16)
ALL_8 = np.arange(1 << 8, dtype=np.uint8)
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]

float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)


def values_of(bits, dtype):
    return floats.widen(bits, dtype)


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_every_16_bit_number_survives_being_widened(dtype):
    values = values_of(ALL_16, dtype)
    back = floats.narrow(values, dtype)

    assert np.array_equal(back[~np.isnan(values)], ALL_16[~np.isnan(values)])
    assert np.isnan(values_of(back[np.isnan(values)], dtype)).all()


def test_f16_is_what_struct_reads():
    expected = struct.unpack("<65536e", ALL_16.tobytes())

    assert np.array_equal(
        values_of(ALL_16, "F16"), np.array(expected, np.float32), equal_nan=True
    )


@given(st.lists(float32s, min_size=1, max_size=20))
def test_bf16_is_the_nearest_and_even_of_two(numbers):
    values = np.array(numbers, np.float32)

    for value, bits in zip(values, floats.narrow(values, "BF16"), strict=True):
        assert bits == nearest_bf16(value)


def nearest_bf16(value):
    """Among the two neighbours, by exact arithmetic."""
    below = int(np.float32(value).view(np.uint32)) >> 16
    neighbours = [bits for bits in (below, below + 1) if bits & 0x7F80 != 0x7F80]
    if len(neighbours) < 2:
        largest = Fraction(float(values_of(np.uint16(neighbours[0])[None], "BF16")[0]))
        limit = abs(largest) + Fraction(2) ** 119  # half a step more
        return neighbours[0] if abs(Fraction(float(value))) < limit else below + 1
    distances = [
        abs(
            Fraction(float(values_of(np.uint16(bits)[None], "BF16")[0]))
            - Fraction(float(value))
        )
        for bits in neighbours
    ]
    return min(zip(distances, (bits % 2 for bits in neighbours), neighbours, strict=True))[2]


@pytest.mark.parametrize("dtype", corpus.DTYPES)
def test_numbers_that_are_not_finite_are_counted(dtype):
    numbers = np.array([1, np.inf, -np.inf, np.nan, -np.nan, 0, 65504], np.float32)
    bits = floats.narrow(numbers, dtype)

    assert floats.count_nonfinite(bits, dtype) == 4


def test_f64_is_rounded_to_f32():
    rows = np.array([1 + 2**-24, 1 + 3 * 2**-24, 1e300, -(2**-149), 2**-150])

    bits = floats.read(memoryview(rows).cast("B"), "F64")

    assert values_of(bits, "F32").tolist() == [1, 1 + 2**-22, np.inf, -(2**-149), 0]
    assert floats.count_nonfinite(bits, "F32") == 1


def test_e4m3_becomes_bf16_exactly():
    bits = floats.read(ALL_8.tobytes(), "F8_E4M3")
    values = values_of(bits, "BF16")

    assert values[[0x00, 0x01, 0x08, 0x38, 0x7E, 0x80, 0xB9]].tolist() == [
        *(0, 2**-9, 2**-6, 1, 448, 0, -1.125)
    ]
    assert np.signbit(values[0x80])
    assert np.flatnonzero(np.isnan(values)).tolist() == [0x7F, 0xFF]
    assert floats.count_nonfinite(bits, "BF16") == 2


def test_e5m2_becomes_bf16_exactly():
    bits = floats.read(ALL_8.tobytes(), "F8_E5M2")
    expected = values_of(ALL_8.astype(np.uint16) << 8, "F16")

    assert np.array_equal(values_of(bits, "BF16"), expected, equal_nan=True)
    assert values_of(bits, "BF16")[[0x01, 0x7B, 0x7C]].tolist() == [2**-16, 57344, np.inf]
    assert floats.count_nonfinite(bits, "BF16") == 8


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_what_is_read_is_a_view_where_a_kernel_can_use_it(dtype):
    buffer = bytearray(64)

    bits = floats.read(memoryview(buffer)[8:40], dtype)
    odd = floats.read(memoryview(buffer)[1:33], dtype)
    fixed = floats.read(bytes(buffer), dtype)

    bits[0] = 7
    assert buffer[8] == 7
    for array in (odd, fixed):
        assert array.flags.aligned
        assert array.flags.writeable


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_e2m1_is_the_first_of_the_nearest_codes(dtype):
    # All quotients below 16 that MXFP4 can have, with distances rounded as MLX rounds them.
    values = values_of(ALL_16, dtype)
    values = values[np.abs(values) < 16]
    table = np.array([*FP4, *(-value for value in FP4)], np.float32)

    distances = floats.rounded(np.abs(values[:, None] - table), dtype)

    assert np.array_equal(minifloats.to_e2m1(values), np.argmin(distances, axis=1))


@given(st.lists(float32s, min_size=1, max_size=50))
def test_e2m1_is_the_first_of_the_nearest_codes_in_f32(numbers):
    values = np.array(numbers, np.float32)

    distances = np.abs(values[:, None] - minifloats.E2M1_VALUES)

    assert np.array_equal(minifloats.to_e2m1(values), np.argmin(distances, axis=1))


@pytest.mark.parametrize(
    ("value", "code"),
    [(0.25, 0), (0.75, 1), (1.25, 2), (1.75, 3), (2.5, 4), (3.5, 5), (5, 6), (7, 7), (1e30, 0)],
)
def test_e2m1_prefers_the_smaller_of_two(value, code):
    sign = 8 if code else 0

    assert minifloats.to_e2m1(np.array([value, -value], np.float32)).tolist() == [
        *(code, code | sign)
    ]


def test_e4m3_numbers_survive():
    is_number = (ALL_8 & 0x7F) != 0x7F
    codes = ALL_8[is_number]

    assert np.array_equal(minifloats.to_e4m3(minifloats.E4M3_VALUES[codes]), codes)


def test_e4m3_is_the_nearest_and_even_of_two():
    values = values_of(ALL_16, "F16")
    values = values[np.isfinite(values)]
    numbers = minifloats.E4M3_VALUES[:0x7F].astype(np.float64)
    # The number of middles below, or at most: where they differ, the even one.
    middles = (numbers[1:] + numbers[:-1]) / 2
    sizes = np.abs(values.astype(np.float64))
    below = np.searchsorted(middles, sizes, side="left")
    at_most = np.searchsorted(middles, sizes, side="right")
    expected = np.where(below % 2 == 0, below, at_most)

    assert np.array_equal(minifloats.to_e4m3(values) & 0x7F, expected)
    assert np.array_equal(minifloats.to_e4m3(values) >> 7, np.signbit(values))


def test_e4m3_never_makes_a_nan():
    values = np.array([449, 1e30, np.inf, np.nan, -np.inf], np.float32)

    assert (minifloats.to_e4m3(values) & 0x7F).tolist() == [0x7E] * 5


def test_exponents_are_rounded_up():
    values = np.array([0, 1, 1 + 2**-23, 2, 0.75, 2**-149, 3 * 2**-149], np.float32)

    assert minifloats.ceil_exponent(values).tolist() == [0, 0, 1, 1, 0, -149, -147]
    assert minifloats.ceil_exponent(np.array([np.inf, np.nan], np.float32)).tolist() == [0, 0]


def test_e8m0_wraps_around():
    exponents = np.array([0, -127, -128, 127, 128])

    assert minifloats.to_e8m0(exponents).tolist() == [127, 0, 255, 254, 255]
