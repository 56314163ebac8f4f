"""The lines, a scale and a bias for each group, that fitting starts from, and their numbers."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns
from importer.codecs.kernels.compiled.turned import GROUPS

_STATES: Final = 17
(
    SCALE,
    BIAS,
    RECIPROCAL,
    CENTER,
    TOTAL,
    SQUARES,
    PRODUCT,
    BEST_SCALE,
    BEST_BIAS,
    GAIN,
    HIGH,
    LOW,
    FIRST_SCALE,
    FIRST_BIAS,
    FIRST_ERROR,
    ERROR,
    MASS,
) = range(0, _STATES * GROUPS, GROUPS)
"""Where the numbers of the groups begin, one after the other."""


@jit
def begin(
    values: Array,
    weights: Array | None,
    state: Array,
    is_symmetric: Flag,
    largest: np.float32,
    left: Array,
) -> None:
    """Find what all candidates need."""
    width = columns(values, 32, 2)
    smallest = np.float32(np.float32(1) / largest)
    for g in range(width):
        value = values[0, g]
        state[HIGH + g], state[LOW + g] = value, value
        if weights is None:
            state[CENTER + g], state[MASS + g] = value, np.float32(values.shape[0])
        else:
            state[CENTER + g] = np.float32(weights[0, g] * value)
            state[MASS + g] = weights[0, g]
    for i in range(1, values.shape[0]):
        for g in range(width):
            value = values[i, g]
            if weights is None:
                state[CENTER + g] = np.float32(state[CENTER + g] + value)
            else:
                weighted = np.float32(weights[i, g] * value)
                state[CENTER + g] = np.float32(state[CENTER + g] + weighted)
                state[MASS + g] = np.float32(state[MASS + g] + weights[i, g])
            state[HIGH + g] = max(state[HIGH + g], value)
            state[LOW + g] = min(state[LOW + g], value)
    for g in range(width):
        high, low = state[HIGH + g], state[LOW + g]
        center = np.float32(state[CENTER + g] / state[MASS + g])
        state[CENTER + g] = center if is_symmetric is None else np.float32(0)
        # Where both are the same, nothing is found, and nothing is lost.
        inside = max(abs(high), abs(low)) < largest and (high - low > smallest or high == low)
        state[ERROR + g] = np.float32(0) if inside else np.float32(1)
    for g in range(left.size):
        left[g] = np.uint8(left[g] | np.uint8(state[ERROR + g]))


@jit
def find_percentiles(values: Array, state: Array, behind: int, share: np.float32) -> None:
    """Put percentiles in the place of the extremes; they are among three values at an end."""
    width = columns(values, 32, 2)
    for g in range(width):
        for kind in range(3):
            state[TOTAL + kind * GROUPS + g] = np.float32(np.inf)
            state[BEST_SCALE + kind * GROUPS + g] = np.float32(-np.inf)
    for i in range(values.shape[0]):
        for g in range(width):
            value = values[i, g]
            second = max(state[TOTAL + g], value)
            state[TOTAL + g] = min(state[TOTAL + g], value)
            third = max(state[SQUARES + g], second)
            state[SQUARES + g] = min(state[SQUARES + g], second)
            state[PRODUCT + g] = min(state[PRODUCT + g], third)
            second = min(state[BEST_SCALE + g], value)
            state[BEST_SCALE + g] = max(state[BEST_SCALE + g], value)
            third = min(state[BEST_BIAS + g], second)
            state[BEST_BIAS + g] = max(state[BEST_BIAS + g], second)
            state[GAIN + g] = max(state[GAIN + g], third)
    for g in range(width):
        first = state[SQUARES + g] if behind else state[TOTAL + g]
        following = state[PRODUCT + g] if behind else state[SQUARES + g]
        state[LOW + g] = _between(first, following, share)
        first = state[BEST_BIAS + g] if behind else state[BEST_SCALE + g]
        following = state[GAIN + g] if behind else state[BEST_BIAS + g]
        state[HIGH + g] = _between(first, following, share)


@jit
def _between(first: np.float32, following: np.float32, share: np.float32) -> np.float32:
    return np.float32(first + np.float32(share * np.float32(following - first)))


@jit
def cover(
    values: Array, state: Array, last_code: np.float32, smallest_step: np.float32
) -> None:
    """Make the first line the narrowest one that covers the range."""
    for g in range(columns(values, 32, 2)):
        scale = np.float32(np.float32(state[HIGH + g] - state[LOW + g]) / last_code)
        state[FIRST_SCALE + g] = max(scale, smallest_step)
        state[FIRST_BIAS + g] = state[LOW + g]


@jit
def cover_symmetric(
    values: Array,
    state: Array,
    is_half: Flag,
    is_wide: Flag,
    zero: np.float32,
    smallest_step: np.float32,
    largest_bias: np.float32,
) -> None:
    """Make the first line the narrowest symmetric one that covers the range."""
    above, widest = np.float32(zero - np.float32(1)), np.float32(largest_bias / zero)
    for g in range(columns(values, 32, 2)):
        scale = np.float32(state[HIGH + g] / above)
        scale = max(scale, np.float32(np.float32(-state[LOW + g]) / zero))
        scale = max(min(scale, widest), smallest_step)
        scale = widen(narrow(scale, is_half, is_wide), is_half, is_wide)
        state[FIRST_SCALE + g] = scale
        state[FIRST_BIAS + g] = np.float32(np.float32(-zero) * scale)


@jit
def round_first(values: Array, state: Array, is_half: Flag, is_wide: Flag) -> None:
    """Round the first line, which is the best one so far."""
    for g in range(columns(values, 32, 2)):
        scale = widen(narrow(state[FIRST_SCALE + g], is_half, is_wide), is_half, is_wide)
        bias = widen(narrow(state[FIRST_BIAS + g], is_half, is_wide), is_half, is_wide)
        state[FIRST_SCALE + g], state[FIRST_BIAS + g] = scale, bias
        state[BEST_SCALE + g], state[BEST_BIAS + g] = scale, bias
        state[GAIN + g] = np.float32(0)
