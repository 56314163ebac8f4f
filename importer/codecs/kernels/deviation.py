"""Sums over decoded values, compiled: `arithmetic/deviation.py`, to the last bit."""

# ruff: noqa: PLR0913, PLR0917 - arrays, one by one, as numba takes them

from __future__ import annotations

import numpy as np

from importer.codecs.arithmetic import Bits
from importer.codecs.arithmetic.deviation import Sums
from importer.codecs.kernels import Bounds
from importer.codecs.kernels.floats import widen
from importer.codecs.kernels.jit import Array, Flag, flag, jit

_F16_INFINITE = np.float32(2.0**16)
"""What `widen` makes of an infinite F16."""


def add(sums: Sums, source: Bits, decoded: Bits, dtype: str, bounds: Bounds) -> None:
    """Add some groups of bits of `dtype`, of shape (groups, group size)."""
    is_half, is_wide = flag(dtype == "F16"), flag(dtype == "F32")
    largest = np.array([sums.largest])
    _add(source.reshape(-1), decoded.reshape(-1), is_half, is_wide, sums.lanes, largest)
    sums.largest = float(largest[0])
    counts = np.zeros(2, np.int64)
    _count(source, decoded, is_half, is_wide, *bounds, counts)
    sums.clipped += int(counts[0])
    sums.zeroed += int(counts[1])


@jit
def _add(
    source: Array,
    decoded: Array,
    is_half: Flag,
    is_wide: Flag,
    lanes: Array,
    largest: Array,
) -> None:
    count = lanes.shape[1]
    most = np.zeros(count, np.float64)
    for start in range(0, source.size, count):
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
    for i in range(count):
        largest[0] = max(largest[0], most[i])


@jit
def _count(
    source: Array,
    decoded: Array,
    is_half: Flag,
    is_wide: Flag,
    low: Array,
    high: Array,
    counts: Array,
) -> None:
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
    """Give the value of `bits`, also of what is not finite in F16, as `widen` does not."""
    value = widen(bits, is_half, is_wide)
    if is_half is None:
        return value
    size = abs(value)
    value = value if size < _F16_INFINITE else np.float32(value * np.float32(np.inf))
    return value if size <= _F16_INFINITE else np.float32(np.nan)
