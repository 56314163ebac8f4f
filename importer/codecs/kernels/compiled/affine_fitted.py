"""Affine quantization with fitted scales, compiled: `reference/affine_fitted.py`."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.affine import find_scales
from importer.codecs.kernels.compiled.affine_first import (
    BEST_BIAS,
    BEST_SCALE,
    BIAS,
    CENTER,
    ERROR,
    FIRST_BIAS,
    FIRST_ERROR,
    FIRST_SCALE,
    GAIN,
    HIGH,
    LOW,
    MASS,
    PRODUCT,
    RECIPROCAL,
    SCALE,
    SQUARES,
    TOTAL,
    begin,
    cover,
    cover_symmetric,
    find_percentiles,
    round_first,
)
from importer.codecs.kernels.compiled.extremes import find_keys, join_spans
from importer.codecs.kernels.compiled.floats import narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns, pack
from importer.codecs.kernels.compiled.turned import turn, turn_weights

_ROUNDER: Final = np.float32(2**23)
"""Added to a float32 between 0 and 2 ** 22, leaves the nearest integer in the low bits."""


@jit
def encode(
    source: Array,
    importance: Array | None,
    spans: Array,
    is_half: Flag,
    is_wide: Flag,
    bits: int,
    is_rare: Flag,
    smallest_step: np.float32,
    largest: np.float32,
    largest_bias: np.float32,
    zero: np.float32,
    is_symmetric: Flag,
    is_clipped: Flag,
    behind: int,
    share: np.float32,
    candidates: Array,
    sweeps: int,
    keys: Array,
    values: Array,
    weights: Array | None,
    state: Array,
    codes: Array,
    lanes: Array,
    bytes_: Array | None,
    words: Array,
    scales: Array,
    biases: Array,
    left: Array,
) -> None:
    """Quantize groups; arrays are those of `affine.encode`.

    Args:
        importance: weights of each group of a row of the tensor, where `source` begins with a
            row; None where all are 1.
        largest: of the reference, as `zero` and `candidates` are.
        behind: of `percentile`, as `share` is; 0 or 1.
        largest_bias: that the dtype can hold.
        values: scratch of shape (group size, GROUPS), as `weights` is, unless all are 1, and
            `state` for the numbers of groups is.
        left: 1 for each group that the search does not take.
    """
    group_words = source.shape[1] * bits // 32
    spans_of_group = source.shape[1] // spans.shape[1]
    high, low = keys[0], keys[1]
    last_code = np.float32((1 << bits) - 1)
    scale, bias = state[FIRST_SCALE:FIRST_BIAS], state[FIRST_BIAS:FIRST_ERROR]
    for number in range(blocks(source, codes)):
        first = number * len(codes)
        block = source[first : first + len(codes)]
        part = slice(first, first + len(block))
        rows = spans[first * spans_of_group :][: len(block) * spans_of_group]
        find_keys(rows, is_wide, high, low)
        if spans_of_group > 1:
            join_spans(high, low, len(block))
        find_scales(
            high, low, is_half, is_wide, last_code, smallest_step, scale, bias, left[part]
        )
        turn(block, is_half, is_wide, values)
        if importance is not None and weights is not None:
            turn_weights(importance, first, len(block), weights)
        begin(values, weights, state, is_symmetric, largest, left[part])
        if is_clipped is not None:
            find_percentiles(values, state, behind, share)
            cover(values, state, last_code, smallest_step)
        if is_symmetric is not None:
            cover_symmetric(values, state, is_half, is_wide, zero, smallest_step, largest_bias)
        round_first(values, state, is_half, is_wide)
        for i in range(candidates.shape[0]):
            _cut(values, state, candidates[i, 0], candidates[i, 1], is_symmetric, zero)
            _add_codes(values, weights, state, last_code, is_symmetric, zero)
            _take_better(values, state, is_symmetric, zero)
        for _ in range(sweeps):
            _continue(values, state)
            _add_codes(values, weights, state, last_code, is_symmetric, zero)
            _take_better(values, state, is_symmetric, zero)
        _finish(values, weights, state, is_half, is_wide, last_code, largest_bias)
        for i in range(len(block)):
            scales[first + i] = narrow(state[SCALE + i], is_half, is_wide)
            biases[first + i] = narrow(state[BIAS + i], is_half, is_wide)
        if bytes_ is not None:
            _find_codes(block, state, is_half, is_wide, last_code, bytes_[part])
        else:
            _find_codes(block, state, is_half, is_wide, last_code, codes)
            pack(lanes, bits, is_rare, words[first * group_words :][: len(block) * group_words])


@jit
def _cut(
    values: Array,
    state: Array,
    move: np.float32,
    length: np.float32,
    is_symmetric: Flag,
    zero: np.float32,
) -> None:
    """Make the line of a candidate."""
    for g in range(columns(values, 32, 2)):
        if is_symmetric is None:
            scale = np.float32(np.float32(state[HIGH + g] - state[LOW + g]) * length)
            bias = np.float32(state[LOW + g] + np.float32(move * scale))
        else:
            scale = np.float32(state[FIRST_SCALE + g] * length)
            bias = np.float32(np.float32(-zero) * scale)
        state[SCALE + g], state[BIAS + g] = scale, bias


@jit
def _continue(values: Array, state: Array) -> None:
    """Make the line that of the best."""
    for g in range(columns(values, 32, 2)):
        state[SCALE + g], state[BIAS + g] = state[BEST_SCALE + g], state[BEST_BIAS + g]


@jit
def _add_codes(
    values: Array,
    weights: Array | None,
    state: Array,
    last_code: np.float32,
    is_symmetric: Flag,
    zero: np.float32,
) -> None:
    """Sum over the codes that a line gives."""
    width = columns(values, 32, 2)
    for g in range(width):
        state[RECIPROCAL + g] = np.float32(np.float32(1) / state[SCALE + g])
        state[TOTAL + g] = np.float32(0)
        state[SQUARES + g] = np.float32(0)
        state[PRODUCT + g] = np.float32(0)
    for i in range(values.shape[0]):
        for g in range(width):
            value = values[i, g]
            code = np.float32(np.float32(value - state[BIAS + g]) * state[RECIPROCAL + g])
            code = np.float32(_nearest(code, last_code) - zero)
            centered = np.float32(value - state[CENTER + g])
            weighted = code
            if weights is not None:
                weighted = np.float32(weights[i, g] * code)
            if is_symmetric is None:
                state[TOTAL + g] = np.float32(state[TOTAL + g] + weighted)
            state[SQUARES + g] = np.float32(state[SQUARES + g] + np.float32(weighted * code))
            product = np.float32(weighted * centered)
            state[PRODUCT + g] = np.float32(state[PRODUCT + g] + product)


@jit
def _nearest(code: np.float32, last_code: np.float32) -> np.float32:
    code = max(np.float32(0), code)
    code = min(last_code, code)
    return np.float32(np.float32(code + _ROUNDER) - _ROUNDER)


@jit
def _take_better(values: Array, state: Array, is_symmetric: Flag, zero: np.float32) -> None:
    """Fit a line through the codes that were summed, and keep it where it gains more."""
    for g in range(columns(values, 32, 2)):
        total, product = state[TOTAL + g], state[PRODUCT + g]
        spread = np.float32(np.float32(total * total) / state[MASS + g])
        variance = np.float32(state[SQUARES + g] - spread)
        scale = np.float32(product / variance)
        gained = np.float32(scale * product)
        shift = np.float32(scale * np.float32(total / state[MASS + g]))
        bias = np.float32(state[CENTER + g] - shift)
        if is_symmetric is not None:
            bias = np.float32(np.float32(-zero) * scale)
        better = variance > np.float32(0) and gained > state[GAIN + g]
        state[BEST_SCALE + g] = scale if better else state[BEST_SCALE + g]
        state[BEST_BIAS + g] = bias if better else state[BEST_BIAS + g]
        state[GAIN + g] = gained if better else state[GAIN + g]


@jit
def _finish(
    values: Array,
    weights: Array | None,
    state: Array,
    is_half: Flag,
    is_wide: Flag,
    last_code: np.float32,
    largest_bias: np.float32,
) -> None:
    """Round the best line, and go back to the first where that is not better."""
    width = columns(values, 32, 2)
    for g in range(width):
        state[SCALE + g], state[BIAS + g] = state[FIRST_SCALE + g], state[FIRST_BIAS + g]
    _add_errors(values, weights, state, last_code)
    for g in range(width):
        state[FIRST_ERROR + g] = state[ERROR + g]
        scale, bias = state[BEST_SCALE + g], state[BEST_BIAS + g]
        state[SCALE + g] = widen(narrow(scale, is_half, is_wide), is_half, is_wide)
        state[BIAS + g] = widen(narrow(bias, is_half, is_wide), is_half, is_wide)
    _add_errors(values, weights, state, last_code)
    for g in range(width):
        scale, bias = state[SCALE + g], state[BIAS + g]
        better = state[ERROR + g] < state[FIRST_ERROR + g] and scale != np.float32(0)
        # An infinity of F16 was widened to a number.
        better = better and max(abs(scale), abs(bias)) <= largest_bias
        scale = scale if better else state[FIRST_SCALE + g]
        state[SCALE + g] = scale
        state[BIAS + g] = bias if better else state[FIRST_BIAS + g]
        state[RECIPROCAL + g] = np.float32(np.float32(1) / scale)


@jit
def _add_errors(
    values: Array, weights: Array | None, state: Array, last_code: np.float32
) -> None:
    """Sum the squared errors of the codes that a line gives."""
    width = columns(values, 32, 2)
    for g in range(width):
        state[RECIPROCAL + g] = np.float32(np.float32(1) / state[SCALE + g])
        state[ERROR + g] = np.float32(0)
    for i in range(values.shape[0]):
        for g in range(width):
            value, scale, bias = values[i, g], state[SCALE + g], state[BIAS + g]
            code = np.float32(np.float32(value - bias) * state[RECIPROCAL + g])
            product = np.float32(_nearest(code, last_code) * scale)
            error = np.float32(value - np.float32(product + bias))
            weighted = error
            if weights is not None:
                weighted = np.float32(weights[i, g] * error)
            state[ERROR + g] = np.float32(state[ERROR + g] + np.float32(weighted * error))


@jit
def _find_codes(
    source: Array,
    state: Array,
    is_half: Flag,
    is_wide: Flag,
    last_code: np.float32,
    codes: Array,
) -> None:
    length = columns(source, 32, 4)
    for group in range(source.shape[0]):
        bias, reciprocal = state[BIAS + group], state[RECIPROCAL + group]
        for i in range(length):
            value = widen(source[group, i], is_half, is_wide)
            code = np.float32(np.float32(value - bias) * reciprocal)
            code = max(np.float32(0), code)
            code = min(last_code, code)
            codes[group, i] = np.uint8(np.float32(code + _ROUNDER).view(np.uint32))
