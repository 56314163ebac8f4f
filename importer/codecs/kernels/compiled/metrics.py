"""Sums over source and decoded values, compiled: `reference/metrics.py`, bit for bit."""

# ruff: noqa: PLR0913, PLR0917 - arrays, one by one, as numba takes them

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks

_F16_INFINITE = np.float32(2.0**16)
"""What `widen` returns for an infinite F16."""


@jit
def add(
    source: Array,
    decoded: Array,
    is_half: Flag,
    is_wide: Flag,
    lanes: Array,
    most: Array,
) -> None:
    """Add some elements to the sums.

    Args:
        source: bits, of shape (elements,), as `decoded` is.
        lanes: sums of squares, squares, products and squared errors, of shape (4, lanes).
        most: the largest error of each lane.
    """
    count = len(most)
    for number in range(blocks(source, most)):
        start = number * count
        these, those = source[start : start + count], decoded[start : start + count]
        for i in range(these.size):
            x = np.float64(_value(these[i], is_half, is_wide))
            y = np.float64(_value(those[i], is_half, is_wide))
            error = y - x
            lanes[0, i] += x * x
            lanes[1, i] += y * y
            lanes[2, i] += x * y
            lanes[3, i] += error * error
            most[i] = max(most[i], abs(error))


@jit
def count(
    source: Array,
    decoded: Array,
    is_half: Flag,
    is_wide: Flag,
    low: Array,
    high: Array,
    counts: Array,
) -> None:
    """Count values of shape (groups, group size) that are clipped, and that become zero."""
    for group in range(source.shape[0]):
        least, greatest = low[group], high[group]
        clipped = zeroed = np.int32(0)
        for i in range(source.shape[1]):
            x = _value(source[group, i], is_half, is_wide)
            y = _value(decoded[group, i], is_half, is_wide)
            clipped = np.int32(clipped + np.int32((x < least) | (x > greatest)))
            zeroed = np.int32(zeroed + np.int32((x != 0) & (y == 0)))
        counts[0] += clipped
        counts[1] += zeroed


@jit
def _value(bits: np.integer, is_half: Flag, is_wide: Flag) -> np.float32:
    """Return the value of `bits`, also of an F16 that is not finite, unlike `widen`."""
    value = widen(bits, is_half, is_wide)
    if is_half is None:
        return value
    size = abs(value)
    value = value if size < _F16_INFINITE else np.float32(value * np.float32(np.inf))
    return value if size <= _F16_INFINITE else np.float32(np.nan)
