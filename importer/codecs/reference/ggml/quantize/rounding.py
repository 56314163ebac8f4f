"""How libggml rounds, and sums in the order of elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Floats

Integers = npt.NDArray[np.int32]

_ROUNDER: Final = np.float32(3 << 22)
"""Added to a float32 below 2 ** 22, leaves the nearest integer in the 23 last bits."""
_FRACTION: Final = np.int32(0x7F_FFFF)
_MIDDLE: Final = np.int32(1 << 22)


def nearest(values: Floats) -> Integers:
    """Round to the nearest, ties to even; from 2 ** 22 on the result is any, but fixed."""
    bits = (values + _ROUNDER).view(np.int32)
    return (bits & _FRACTION) - _MIDDLE


def away(values: Floats) -> Floats:
    """Round to the nearest, ties away from zero; also an infinity, to 0."""
    whole = np.trunc(values)
    rounded = whole + np.copysign(np.abs(values - whole) >= np.float32(0.5), values)
    return np.where(np.isfinite(values), rounded, 0).astype(np.float32)


def clipped(values: Integers, low: int, high: int) -> Integers:
    """Return integers, moved into a range."""
    return np.clip(values, np.int32(low), np.int32(high))


def total(terms: Floats) -> Floats:
    """Sum along the first axis, one after the other, from 0 on."""
    # Not `sum`, which adds pairs where that is faster. A sum that begins with 0 is never -0.
    sums: Floats = np.add.accumulate(terms, axis=0)[-1] + np.float32(0)
    return sums


def extreme(values: Floats) -> Floats:
    """Return the number of the largest magnitude along the first axis, the first of several.

    NaNs count as 0, and 0 is never -0.
    """
    magnitudes = np.fmax(np.abs(values), np.float32(0))  # where one is NaN, 0
    found = _at(values, np.argmax(magnitudes, axis=0))
    return np.where(magnitudes.any(axis=0), found, np.float32(0))


def least(values: Floats) -> Floats:
    """Return the least number along the first axis, the first of several: 0 or -0."""
    return _at(values, np.argmin(values, axis=0))


def reciprocal(values: Floats) -> Floats:
    """Return 1 / x, and 0 for 0."""
    return np.where(values == 0, np.float32(0), np.float32(1) / values)


def halves(values: Floats) -> npt.NDArray[Any]:
    """Return F16, rounded to the nearest, ties to even."""
    return values.astype("<f2")


def _at(values: Floats, places: npt.NDArray[np.intp]) -> Floats:
    found: Floats = np.take_along_axis(values, places[None], axis=0)[0]
    return found
