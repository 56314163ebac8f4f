"""Decoded values as matrices, whose rows and columns can be moved."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from importer.codecs.reference.floats import STORED, widen
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

Matrix = np.ndarray[Any, Any]
_SQRT_HALF: Final = 0.7071067811865476
_LOG_2: Final = 0.6931471805599453


def matrix_of(values: Buffer, dtype: str, wanted: str, width: int) -> Matrix:
    """Return values as rows of the bits of `wanted`, which is `dtype` or F32."""
    if dtype != wanted:
        return to_f32(values, dtype).reshape(-1, width)
    return np.frombuffer(values, f"u{ITEM_BITS[dtype] // 8}").reshape(-1, width)


def to_f32(values: Buffer, dtype: str) -> Matrix:
    """Return floats as the bits of F32, which holds those of 16 bits exactly."""
    if dtype == "F64":
        with np.errstate(over="ignore"):
            return np.frombuffer(values, "<f8").astype("<f4").view("<u4")
    return widen(np.frombuffer(values, STORED[dtype]), dtype).view("<u4")


def bytes_of(values: Matrix) -> Buffer:
    """Return the bytes of an array in row-major order."""
    return np.ascontiguousarray(values).reshape(-1).view("u1").data


def logarithm(values: Matrix) -> Matrix:
    """Return natural logarithms of F32, rounded to F32.

    Libraries differ in the last bits of theirs, and a blob must not: this one needs nothing
    but sums, products and quotients of F64. With `m` in [sqrt(1/2), sqrt(2)) it is
    `log(m * 2**e) = e * log 2 + 2 * artanh((m - 1) / (m + 1))`, and the terms of that series
    fall below 2**-60 after the twelfth.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        mantissa, exponent = np.frexp(values.astype("<f8"))
        is_low = mantissa < _SQRT_HALF
        mantissa = np.where(is_low, mantissa * 2, mantissa)
        exponent = (exponent - is_low).astype("<f8")
        ratio = (mantissa - 1) / (mantissa + 1)
        square = ratio * ratio
        series = np.zeros_like(ratio)
        for odd in range(25, 0, -2):
            series = series * square + 1 / odd
        found = exponent * _LOG_2 + 2 * ratio * series
        found = np.where(values > 0, found, np.where(values == 0, -np.inf, np.nan))
        return np.where(values == np.inf, np.inf, found).astype("<f4")
