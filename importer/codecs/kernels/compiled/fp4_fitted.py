"""MXFP4 and NVFP4 with fitted scales, compiled: `reference/fp4_fitted.py`.

A lane of a vector is a group, as in `affine_fitted`, for sums in the order of the elements.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import e4m3_to_f32, e8m0_to_f32
from importer.codecs.kernels.compiled.fp4 import find_codes, find_divisors
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns, pack
from importer.codecs.kernels.compiled.magnitudes import (
    e4m3_scales,
    e8m0_scales,
    find_largest,
)
from importer.codecs.kernels.compiled.turned import GROUPS, turn, turn_weights

_STATES: Final = 6
_BASE, _BYTE, _SCALE, _RECIPROCAL, _ERROR, _LEAST = range(0, _STATES * GROUPS, GROUPS)
_CODES_PER_WORD: Final = 8


@jit
def encode(
    source: Array,
    importance: Array | None,
    is_half: Flag,
    is_wide: Flag,
    is_nvfp4: Flag,
    lowest: int,
    highest: int,
    middles: Array,
    shifts: Array,
    last_byte: np.float32,
    sizes: Array,
    values: Array,
    weights: Array | None,
    state: Array,
    codes: Array,
    lanes: Array,
    words: Array,
    scales: Array,
    left: Array,
) -> None:
    """Quantize groups; arrays are those of `fp4.encode`.

    Args:
        importance: as for `affine_fitted.encode`.
        middles: for quotients of F32.
        shifts: of the reference, as float32, as `last_byte` is.
        values: scratch of shape (group size, GROUPS), as `weights` is, unless all are 1, and
            `state` for the numbers of groups is.
    """
    group_words = source.shape[1] // _CODES_PER_WORD
    divisors = state[_SCALE:_RECIPROCAL]
    for number in range(blocks(source, codes)):
        first = number * len(codes)
        block = source[first : first + len(codes)]
        part = slice(first, first + len(block))
        find_largest(block, is_wide, lowest, highest, sizes, left[part])
        if is_nvfp4 is None:
            e8m0_scales(sizes, is_half, is_wide, np.float32(6), scales[part])
        else:
            e4m3_scales(sizes, is_half, is_wide, scales[part])
        turn(block, is_half, is_wide, values)
        if importance is not None and weights is not None:
            turn_weights(importance, first, len(block), weights)
        for i in range(len(block)):
            state[_BASE + i] = np.float32(scales[first + i])
            state[_BYTE + i] = state[_BASE + i]
            state[_LEAST + i] = np.float32(np.inf)
        for i in range(shifts.size):
            _try(values, weights, state, shifts[i], last_byte, is_nvfp4)
        for i in range(len(block)):
            scales[first + i] = np.uint8(np.uint32(state[_BYTE + i]))
        find_divisors(scales[part], is_nvfp4, divisors)
        find_codes(block, is_half, is_wide, divisors, middles, codes)
        pack(lanes, 4, None, words[first * group_words :][: len(block) * group_words])


@jit
def _try(
    values: Array,
    weights: Array | None,
    state: Array,
    shift: np.float32,
    last_byte: np.float32,
    is_nvfp4: Flag,
) -> None:
    """Take a byte where its sum of squared errors is less."""
    width = columns(values, 32, 2)
    for g in range(width):
        byte = np.float32(state[_BASE + g] + shift)
        byte = min(max(byte, np.float32(0)), last_byte)
        code = np.uint8(np.uint32(byte))
        scale = e8m0_to_f32(code) if is_nvfp4 is None else e4m3_to_f32(code)
        state[_SCALE + g] = scale
        divisor = scale if scale > np.float32(0) else np.float32(np.inf)
        state[_RECIPROCAL + g] = divisor
        state[_ERROR + g] = np.float32(0)
    for i in range(values.shape[0]):
        for g in range(width):
            size = abs(values[i, g])
            quotient = np.float32(size / state[_RECIPROCAL + g])
            error = np.float32(size - np.float32(_magnitude(quotient) * state[_SCALE + g]))
            weighted = error
            if weights is not None:
                weighted = np.float32(weights[i, g] * error)
            state[_ERROR + g] = np.float32(state[_ERROR + g] + np.float32(weighted * error))
    for g in range(width):
        byte = np.float32(state[_BASE + g] + shift)
        byte = min(max(byte, np.float32(0)), last_byte)
        better = state[_ERROR + g] < state[_LEAST + g]
        state[_BYTE + g] = byte if better else state[_BYTE + g]
        state[_LEAST + g] = state[_ERROR + g] if better else state[_LEAST + g]


@jit
def _magnitude(size: np.float32) -> np.float32:
    """Return the magnitude of E2M1 that is nearest, the smaller of two; exact sums."""
    zero, half = np.float32(0), np.float32(0.5)
    one, two = np.float32(1), np.float32(2)
    low = half if size > np.float32(0.25) else zero
    low = np.float32(low + (half if size > np.float32(0.75) else zero))
    low = np.float32(low + (half if size > np.float32(1.25) else zero))
    low = np.float32(low + (half if size > np.float32(1.75) else zero))
    high = one if size > np.float32(2.5) else zero
    high = np.float32(high + (one if size > np.float32(3.5) else zero))
    high = np.float32(high + (two if size > np.float32(5) else zero))
    return np.float32(low + high)
