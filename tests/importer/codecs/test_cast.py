"""Downcasts: equal to MLX where MLX has the dtype, to exact fractions where it has not."""

from __future__ import annotations

from fractions import Fraction

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.base import Operation, Part
from importer.codecs.cast import Cast, CastKernel, Rounded
from importer.codecs.plain import Plain
from importer.codecs.runtime import NUMPY, KernelRuntime

KINDS = {"F64": np.float64, "F32": np.uint32, "F16": np.uint16, "BF16": np.uint16}
MLX = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
PAIRS = [(dtype, to) for to in ("BF16", "F16") for dtype in KINDS if dtype != to]
DIGITS = {"BF16": (8, -133, 128), "F16": (11, -24, 16)}
"""Of a significand, the exponent of the smallest subnormal, the first that overflows."""

each_pair = pytest.mark.parametrize(("dtype", "to"), PAIRS)


def cast(dtype, to, rows):
    """The bits of the results, and how many finite values became infinite."""
    encoded = Cast(dtype, to).encode(memoryview(rows.tobytes()), NUMPY)
    (part,) = encoded.parts
    return np.frombuffer(part, np.uint16), encoded.nonfinite


def mlx_cast(dtype, to, bits):
    with mx.stream(mx.cpu):
        return np.array(mx.array(bits).view(MLX[dtype]).astype(MLX[to]).view(mx.uint16))


def is_nan(bits, to):
    infinity = 0x7F80 if to == "BF16" else 0x7C00
    return (bits & 0x7FFF) > infinity


def check_equal(ours, theirs, to):
    # Which NaN it is, is up to the processor.
    assert (is_nan(ours, to) == is_nan(theirs, to)).all()
    assert (
        np.where(is_nan(ours, to), 0, ours) == np.where(is_nan(theirs, to), 0, theirs)
    ).all()


@pytest.mark.parametrize(("dtype", "to"), [("F16", "BF16"), ("BF16", "F16")])
def test_every_16_bit_value_is_cast_as_mlx_does(dtype, to):
    bits = np.arange(1 << 16, dtype=np.uint16)

    check_equal(cast(dtype, to, bits)[0], mlx_cast(dtype, to, bits), to)


@pytest.mark.parametrize("to", ["BF16", "F16"])
def test_f32_is_cast_as_mlx_does(to):
    # Each upper half with lower halves at, and beside, every tie.
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    bits = (upper[:, None] | lower.astype(np.uint32)).ravel()

    check_equal(cast("F32", to, bits)[0], mlx_cast("F32", to, bits), to)


@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50),
    st.sampled_from(sorted(DIGITS)),
)
def test_any_f32_is_cast_as_mlx_does(values, to):
    bits = np.array(values, np.uint32)

    check_equal(cast("F32", to, bits)[0], mlx_cast("F32", to, bits), to)


def exact(value, to):
    """Round a finite double with fractions; give the bits."""
    digits, smallest, largest = DIGITS[to]
    magnitude = abs(Fraction(value))
    sign = 0x8000 if np.signbit(value) else 0
    if not magnitude:
        return sign
    exponent = max(int(np.frexp(float(magnitude))[1]) - digits, smallest)
    # Python rounds fractions to the nearest, ties to even.
    count = round(magnitude / Fraction(2) ** exponent)
    if Fraction(count) * Fraction(2) ** exponent >= Fraction(2) ** largest:
        return sign | (0x7F80 if to == "BF16" else 0x7C00)
    # A significand of one digit more than fits carries into the exponent, as the bits do.
    return sign | (((exponent - smallest) << (digits - 1)) + count)


def near_ties():
    """Doubles at, and one step beside, places where rounding goes one way or the other."""
    for to, (digits, smallest, largest) in DIGITS.items():
        for exponent in (smallest - 2, smallest, smallest + 3, -14, 0, 5, largest - digits):
            for count in (1, 2, 3, 2 ** (digits - 1), 2**digits - 1):
                for half in (0, Fraction(1, 2)):
                    value = float((count + half) * Fraction(2) ** exponent)
                    for step in (0, 1, -1, 2**29, -(2**29), 2**28):
                        bits = np.float64(value).view(np.int64) + step
                        yield to, float(np.int64(bits).view(np.float64))


def as_f32(values):
    """The values of doubles as F32, and how many finite ones became infinite."""
    encoded = Cast("F64", "F32").encode(memoryview(np.array(values).tobytes()), NUMPY)
    (part,) = encoded.parts
    return np.frombuffer(part, np.float32), encoded.nonfinite


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_f64_becomes_the_nearest_f32(values):
    found, overflows = as_f32(values)

    with np.errstate(over="ignore", under="ignore"):
        expected = np.array(values).astype(np.float32)
    assert found.tobytes() == expected.tobytes()
    assert overflows == np.isinf(expected).sum() - np.isinf(values).sum()


def test_a_digit_that_f32_has_not_goes_to_the_nearest():
    assert as_f32([1 + 1e-10, 1 - 1e-10])[0].tolist() == [1, 1]


def test_what_is_too_large_for_f32_is_counted_and_what_was_infinite_is_not():
    largest, tie = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103
    found, overflows = as_f32([1e300, -1e300, tie, np.nextafter(tie, 0), np.inf, np.nan])

    assert overflows == 3
    assert found[:5].tolist() == [np.inf, -np.inf, np.inf, largest, np.inf]
    assert np.isnan(found[5])


@pytest.mark.parametrize("to", sorted(DIGITS))
def test_f64_is_rounded_once(to):
    values = np.array([value for kind, value in near_ties() if kind == to])
    values = np.concatenate([values, -values])

    bits, _ = cast("F64", to, values)

    assert bits.tolist() == [exact(value, to) for value in values]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
       st.sampled_from(sorted(DIGITS)))  # fmt: skip
def test_any_f64_is_rounded_once(values, to):
    bits, overflows = cast("F64", to, np.array(values))
    expected = [exact(value, to) for value in values]

    assert bits.tolist() == expected
    infinity = 0x7F80 if to == "BF16" else 0x7C00
    assert overflows == sum((bits & 0x7FFF) == infinity for bits in expected)


@pytest.mark.parametrize(
    ("dtype", "to", "values", "overflows"),
    [
        ("F32", "F16", [65504.0, 65519.9, 65520.0, -1e9, np.inf, np.nan], 2),
        ("F32", "BF16", [3.38e38, 3.4e38, -3.4e38, -np.inf], 2),
        ("F64", "F16", [65519.99999999999, 65520.0, 1e308, np.inf], 2),
        ("F64", "BF16", [1e308, -1e308, np.nan, 3.38e38], 2),
    ],
)
def test_values_that_become_infinite_are_counted(dtype, to, values, overflows):
    rows = np.array(values, np.float32 if dtype == "F32" else np.float64)

    assert cast(dtype, to, rows)[1] == overflows


def test_a_large_bf16_overflows_f16():
    assert cast("BF16", "F16", np.array([0x4780, 0x477F, 0x7F80, 0xFF7F], np.uint16))[1] == 2


@each_pair
def test_nan_and_infinity_stay_what_they_are(dtype, to):
    floats = np.array([np.nan, -np.nan, np.inf, -np.inf], np.float64)
    if dtype == "BF16":
        rows = (floats.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        rows = floats.astype({"F64": "f8", "F32": "f4", "F16": "f2"}[dtype])

    bits, overflows = cast(dtype, to, rows)

    infinity = 0x7F80 if to == "BF16" else 0x7C00
    assert is_nan(bits, to).tolist() == [True, True, False, False]
    assert bits[2:].tolist() == [infinity, infinity | 0x8000]
    assert overflows == 0


@each_pair
def test_large_tensors_are_cast_in_pieces_alike(dtype, to):
    rows = np.resize(np.arange(251, dtype=np.uint16), (1 << 15) + 7).astype(KINDS[dtype])

    whole, _ = cast(dtype, to, rows)

    assert (whole[-7:] == cast(dtype, to, rows[-7:])[0]).all()
    assert (whole[:7] == cast(dtype, to, rows[:7])[0]).all()


def test_a_cast_is_one_part_of_another_dtype():
    codec = Cast("F64", "BF16")

    assert codec.parts((2, 3)) == (Part("", "BF16", (2, 3)),)
    assert codec.unit((2, 3)) == 1
    assert not codec.is_lossless


@pytest.fixture(scope="module")
def compiled():
    """Every kernel of casts, checked."""
    specs = [kernel for pair in PAIRS for kernel in Cast(*pair).kernels(Operation.ENCODE)]
    assert len(specs) == 3
    for spec in specs:
        spec.check(spec.load())
    return KernelRuntime({spec: spec.load() for spec in specs})


KERNEL_PAIRS = [("BF16", "F16"), ("F32", "F16"), ("F32", "BF16")]


def same_as_numpy(dtype, to, bits, runtime):
    data = bytearray(bits.tobytes())
    mine, wanted = (Cast(dtype, to).encode(data, one) for one in (runtime, NUMPY))
    assert bytes(mine.parts[0]) == bytes(wanted.parts[0])
    assert mine.nonfinite == wanted.nonfinite


@pytest.mark.parametrize(("dtype", "to"), KERNEL_PAIRS)
def test_a_kernel_casts_every_upper_half_as_numpy_does(dtype, to, compiled):
    """In parts of like exponents: one value that is not finite has numpy cast its part."""
    for sign in (0, 0x8000):
        upper = np.arange(sign, sign + 0x8000, dtype=np.uint32)
        for lower in (0, 1, 0x1000, 0x8000, 0xFFFF) if dtype == "F32" else (0,):
            bits = (upper << 16 | lower if dtype == "F32" else upper).astype(KINDS[dtype])
            for part in bits.reshape(256, -1):
                same_as_numpy(dtype, to, part, compiled)


@pytest.mark.parametrize(("dtype", "to"), KERNEL_PAIRS)
@given(values=st.lists(st.floats(width=32), max_size=40))
def test_a_kernel_casts_as_numpy_does(dtype, to, compiled, values):
    bits = np.array(values, np.float32).view(np.uint32)
    bits = bits if dtype == "F32" else bits >> 16
    same_as_numpy(dtype, to, bits.astype(KINDS[dtype]), compiled)


def test_a_kernel_that_rounds_otherwise_is_found():
    class Wrong:
        @staticmethod
        def narrowed(source, _dtype, _wanted):
            return np.zeros(len(source), np.uint16)

    with pytest.raises(ArithmeticError):
        CastKernel("BF16", "F16").check(Wrong)


@pytest.mark.parametrize(
    ("decoder", "wanted", "has_kernel"),
    [(Plain("F32"), "BF16", True), (Plain("BF16"), "F16", True), (Plain("BF16"), "F32", False)],
)
def test_values_that_are_rounded_have_the_kernel_that_rounds(decoder, wanted, has_kernel):
    # Without it int4 of Q8_0 took 2.3 times the CPU seconds.
    kernels = Rounded(decoder, wanted).kernels(Operation.DECODE)
    expected = [CastKernel(decoder.value_dtype, wanted)] if has_kernel else []
    assert [one for one in kernels if isinstance(one, CastKernel)] == expected
    assert not Rounded(decoder, wanted).kernels(Operation.ENCODE)
