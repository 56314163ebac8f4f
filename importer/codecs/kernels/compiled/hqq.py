"""HQQ's encoder, compiled: `reference/hqq.py`, where nothing is left of a shrunk error.

That is where errors are below 0.158, so that zero points are means of `code - value * scale`:
in models it is everywhere. Groups are columns, and so the lanes of vectors; sums are in the
order of the rows. All numbers of a block's groups lie in one array, at distances that the
compiler knows.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.jit import Array, Flag, jit

_COLUMNS: Final = 128
_ROWS: Final = 64
_HALF: Final = 32
_SCALE: Final = 0
_ZERO: Final = 1 * _COLUMNS
_LOW: Final = 2 * _COLUMNS
_HIGH: Final = 3 * _COLUMNS
_SUM: Final = 4 * _COLUMNS
_WORST: Final = 5 * _COLUMNS
_LARGEST: Final = 64.0
"""A magnitude up to which what is rounded away is small beside `_NEVER_SHRUNK`."""
_NEVER_SHRUNK: Final = 0.15
"""What |x| - |x| ** -0.3 / beta is below 0 for: beta is at most 10 * 1.01 ** 9."""


@jit
def encode(
    values: Array,
    is_nibble: Flag,
    steps: int,
    largest_scale: np.float32,
    state: Array,
    packed: Array,
    scales: Array,
    zeros: Array,
    left: Array,
) -> None:
    """Quantize groups.

    Args:
        values: of shape (64, groups).
        state: scratch for the groups of a block.
        packed: of shape (bytes of a group, groups).
        left: 1 for each group that numpy has to do.
    """
    last_code = np.float32(255) if is_nibble is None else np.float32(15)
    for number in range((left.size + _COLUMNS - 1) // _COLUMNS):
        first = number * _COLUMNS
        flags = left[first : first + _COLUMNS]
        _begin(values, first, last_code, largest_scale, state, flags)
        for _ in range(steps):
            _clear(state, _SUM)
            for row in range(_ROWS):
                _step(values[row][first : first + _COLUMNS], last_code, state)
            _next_zeros(state)
        for i in range(flags.size):
            worst = np.float32(np.float32(_NEVER_SHRUNK) * state[_SCALE + i])
            if not state[_WORST + i] <= worst:
                flags[i] = np.uint8(1)
            scales[first + i] = np.float32(np.float32(1) / state[_SCALE + i])
            zeros[first + i] = state[_ZERO + i]
        for row in range(len(packed)):
            line = values[row][first : first + _COLUMNS]
            made = packed[row][first : first + _COLUMNS]
            if is_nibble is None:
                _bytes(line, last_code, state, made)
            else:
                other = values[row + _HALF][first : first + _COLUMNS]
                _nibbles(line, other, last_code, state, made)


@jit
def measure(
    values: Array,
    is_nibble: Flag,
    largest_scale: np.float32,
    state: Array,
    sums: Array,
    errors: Array,
    left: Array,
) -> None:
    """Sum up the errors before each step.

    Args:
        values: of shape (64, groups).
        state: scratch for the groups of a block, as `sums` is.
        errors: of shape (steps, groups).
        left: 1 for each group that numpy has to do.
    """
    last_code = np.float32(255) if is_nibble is None else np.float32(15)
    for number in range((left.size + _COLUMNS - 1) // _COLUMNS):
        first = number * _COLUMNS
        flags = left[first : first + _COLUMNS]
        _begin(values, first, last_code, largest_scale, state, flags)
        for step in range(len(errors)):
            _clear(state, _SUM)
            for i in range(sums.size):
                sums[i] = 0.0
            for row in range(_ROWS):
                _measured_step(values[row][first : first + _COLUMNS], last_code, state, sums)
            _next_zeros(state)
            found = errors[step][first : first + _COLUMNS]
            for i in range(found.size):
                found[i] = sums[i]
        for i in range(flags.size):
            if not state[_WORST + i] <= np.float32(_NEVER_SHRUNK):
                flags[i] = np.uint8(1)


@jit
def _begin(
    values: Array,
    first: int,
    last_code: np.float32,
    largest_scale: np.float32,
    state: Array,
    flags: Array,
) -> None:
    """Find scales and the first zero points, and flag groups of large or no numbers."""
    line = values[0][first : first + _COLUMNS]
    for i in range(line.size):
        state[_LOW + i] = line[i]
        state[_HIGH + i] = line[i]
        flags[i] = np.uint8(0)
    for row in range(_ROWS):
        line = values[row][first : first + _COLUMNS]
        for i in range(min(line.size, _COLUMNS)):
            value, low, high = line[i], state[_LOW + i], state[_HIGH + i]
            state[_LOW + i] = min(low, value)
            state[_HIGH + i] = max(high, value)
            if not abs(value) <= np.float32(_LARGEST):  # NaN, too
                flags[i] = np.uint8(1)
    for i in range(min(flags.size, _COLUMNS)):
        low = state[_LOW + i]
        width = np.float32(state[_HIGH + i] - low)
        scale = np.float32(np.float32(np.float32(1) / width) * last_code)
        scale = min(largest_scale, scale)
        state[_SCALE + i] = scale
        state[_ZERO + i] = np.float32(np.float32(-low) * scale)
        state[_WORST + i] = np.float32(0)


@jit
def _clear(state: Array, place: int) -> None:
    for i in range(_COLUMNS):
        state[place + i] = np.float32(0)


@jit
def _next_zeros(state: Array) -> None:
    for i in range(_COLUMNS):
        state[_ZERO + i] = np.float32(state[_SUM + i] * np.float32(1 / _ROWS))


@jit
def _code(placed: np.float32, last_code: np.float32) -> np.int32:
    """Round to the nearest code, halves up."""
    inside = max(np.float32(0), placed)
    inside = min(last_code, inside)
    whole = np.int32(inside)
    # Exact: what is just below a half is not to be rounded up.
    rest = np.float32(inside - np.float32(whole))
    return np.int32(whole + (np.int32(1) if rest >= np.float32(0.5) else np.int32(0)))


@jit
def _step(line: Array, last_code: np.float32, state: Array) -> None:
    for i in range(min(line.size, _COLUMNS)):
        product = np.float32(line[i] * state[_SCALE + i])
        placed = np.float32(product + state[_ZERO + i])
        code = np.float32(_code(placed, last_code))
        # Not divided by the scale, as `measure` does: that is the slowest operation.
        distance = abs(np.float32(placed - code))
        worst = state[_WORST + i]
        state[_WORST + i] = max(worst, distance)
        state[_SUM + i] = np.float32(state[_SUM + i] + np.float32(code - product))


@jit
def _measured_step(line: Array, last_code: np.float32, state: Array, sums: Array) -> None:
    for i in range(min(line.size, _COLUMNS)):
        value, scale, zero = line[i], state[_SCALE + i], state[_ZERO + i]
        product = np.float32(value * scale)
        code = np.float32(_code(np.float32(product + zero), last_code))
        error = abs(np.float32(value - np.float32(np.float32(code - zero) / scale)))
        worst = state[_WORST + i]
        state[_WORST + i] = max(worst, error)
        state[_SUM + i] = np.float32(state[_SUM + i] + np.float32(code - product))
        sums[i] += np.float64(error)


@jit
def _bytes(line: Array, last_code: np.float32, state: Array, made: Array) -> None:
    for i in range(min(line.size, _COLUMNS)):
        placed = np.float32(np.float32(line[i] * state[_SCALE + i]) + state[_ZERO + i])
        made[i] = np.uint8(_code(placed, last_code))


@jit
def _nibbles(
    line: Array, other: Array, last_code: np.float32, state: Array, made: Array
) -> None:
    for i in range(min(line.size, _COLUMNS)):
        scale, zero = state[_SCALE + i], state[_ZERO + i]
        high = _code(np.float32(np.float32(line[i] * scale) + zero), last_code)
        low = _code(np.float32(np.float32(other[i] * scale) + zero), last_code)
        made[i] = np.uint8(np.int32(np.int32(high << np.int32(4)) | low))
