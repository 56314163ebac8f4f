"""Floats of four and eight bits: E2M1, E4M3 and E8M0, as MLX's CPU code rounds to them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats

Exponents = npt.NDArray[np.int32]

E2M1_LARGEST: Final = np.float32(6)
E4M3_LARGEST: Final = np.float32(448)

E2M1_MAGNITUDES: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_E2M1_SIGN: Final = np.uint8(8)
E2M1_VALUES: Final = np.concatenate([E2M1_MAGNITUDES, -E2M1_MAGNITUDES])
"""The value of each of the 16 codes."""

_E4M3_SIGN: Final = np.uint8(0x80)
E4M3_NAN: Final = 0x7F
_E4M3_SMALLEST_NORMAL: Final = np.float32(2**-6)
_E4M3_LEAST_EXPONENT: Final = 127 - 6
_EXPONENT: Final = 0x7F80_0000
_FRACTION_BITS: Final = 23
_E8M0_BIAS: Final = 127
E8M0_NAN: Final = 0xFF


def to_e2m1(values: Floats) -> Codes:
    """Return the code whose value is nearest; of two equally near, the smaller magnitude.

    MLX takes the first of the smallest among 16 distances. So a zero has no sign (code 8 is
    never made), and what is so far away that all distances are equal becomes 0. It computes
    the distances for MXFP4 in the source's dtype, which makes no difference: there values
    are below 16 (test_mxfp.py tries them all).
    """
    magnitudes = np.abs(values)
    nearest = magnitudes
    codes = np.zeros(values.shape, np.uint8)
    for code, magnitude in enumerate(E2M1_MAGNITUDES[1:], 1):
        distance = np.abs(magnitudes - magnitude)
        codes = np.maximum(codes, (distance < nearest) * np.uint8(code))
        nearest = np.minimum(distance, nearest)
    return codes | ((codes > 0) & (values < 0)) * _E2M1_SIGN


def to_e4m3(values: Floats) -> Codes:
    """Round to the nearest, ties to even; what is larger than 448, or NaN, becomes 448."""
    magnitudes = np.fmin(np.abs(values), E4M3_LARGEST)
    # Three digits after the first; below the normals all share one step.
    powers = np.maximum(magnitudes, _E4M3_SMALLEST_NORMAL).view(np.uint32) & _EXPONENT
    steps = np.rint(magnitudes / (powers.view(np.float32) / 8)).astype(np.uint8)
    # Eight steps more are the next exponent: codes follow each other as their values do.
    exponents = ((powers >> _FRACTION_BITS) - _E4M3_LEAST_EXPONENT).astype(np.uint8)
    return ((exponents << np.uint8(3)) + steps) | np.signbit(values) * _E4M3_SIGN


def _e4m3_values() -> Floats:
    codes = np.arange(256, dtype=np.int32)
    exponents, fractions = (codes >> 3) & 15, codes & 7
    normal = np.ldexp((fractions + 8).astype(np.float32), exponents - 10)
    values = np.where(exponents == 0, np.ldexp(fractions.astype(np.float32), -9), normal)
    values[(codes & E4M3_NAN) == E4M3_NAN] = np.nan
    return np.where(codes & _E4M3_SIGN, -values, values).astype(np.float32)


E4M3_VALUES: Final = _e4m3_values()
"""The value of each of the 256 codes."""


def ceil_exponent(values: Floats) -> Exponents:
    """Return the smallest e with 2 ** e >= value; 0 for 0 and for what is not finite.

    There MLX converts an infinity to an integer, which C++ leaves undefined.
    """
    fractions, exponents = np.frexp(values)
    is_power = fractions == np.float32(0.5)
    exponents = np.where(is_power, exponents - 1, exponents)
    return np.where((values == 0) | ~np.isfinite(values), 0, exponents)


def power_of_two(exponents: Exponents) -> Floats:
    """Return 2 ** e in float32: infinity for 128."""
    return np.ldexp(np.float32(1), exponents)


def to_e8m0(exponents: Exponents) -> Codes:
    """Return the bytes of 2 ** e; like MLX's, they wrap around below -127."""
    return (exponents + _E8M0_BIAS).astype(np.uint8)


def exponents_of(codes: Bits) -> Exponents:
    """Return e for the byte of 2 ** e: 128 for 255, which the OCP calls NaN."""
    return codes.astype(np.int32) - _E8M0_BIAS
