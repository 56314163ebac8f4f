"""AFQ's encoder, compiled: `reference/afq.py`, for finite values."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.extremes import find_keys, join_spans, key_of
from importer.codecs.kernels.compiled.floats import narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns, pack


@jit
def encode(
    source: Array,
    spans: Array,
    is_half: Flag,
    is_wide: Flag,
    bits: int,
    is_rare: Flag,
    smallest_range: np.float32,
    keys: Array,
    lines: Array,
    codes: Array,
    lanes: Array,
    bytes_: Array | None,
    words: Array,
    scales: Array,
    biases: Array,
    left: Array,
) -> None:
    """Quantize groups; the arguments are those of `affine.encode`."""
    group_words = source.shape[1] * bits // 32
    spans_of_group = source.shape[1] // spans.shape[1]
    high, low = keys[0], keys[1]
    scale, bias = lines[0], lines[1]
    last_code = np.float32((1 << bits) - 1)
    for number in range(blocks(source, codes)):
        first = number * len(codes)
        block = source[first : first + len(codes)]
        part = slice(first, first + len(block))
        rows = spans[first * spans_of_group :][: len(block) * spans_of_group]
        find_keys(rows, is_wide, high, low)
        if spans_of_group > 1:
            join_spans(high, low, len(block))
        _find_scales(
            high, low, is_half, is_wide, last_code, smallest_range, scale, bias, left[part]
        )
        for i in range(len(block)):
            scales[first + i] = narrow(scale[i], is_half, is_wide)
            biases[first + i] = narrow(bias[i], is_half, is_wide)
        if bytes_ is not None:
            _find_codes(block, is_half, is_wide, scale, bias, last_code, bytes_[part])
        else:
            _find_codes(block, is_half, is_wide, scale, bias, last_code, codes)
            pack(lanes, bits, is_rare, words[first * group_words :][: len(block) * group_words])


@jit
def _find_scales(
    high: Array,
    low: Array,
    is_half: Flag,
    is_wide: Flag,
    last_code: np.float32,
    smallest_range: np.float32,
    scale: Array,
    bias: Array,
    left: Array,
) -> None:
    # An F16 that is not finite is widened to a number.
    infinity = np.float32(np.inf) if is_half is None else np.float32(2**16)
    for i in range(left.size):
        top = widen(key_of(high[i], is_wide), is_half, is_wide)
        bottom = widen(key_of(low[i], is_wide), is_half, is_wide)
        width = np.float32(top - bottom)
        scale[i] = np.float32(1) if width < smallest_range else np.float32(width / last_code)
        bias[i] = bottom
        # Also where it is NaN, and where the range is too large.
        is_finite = abs(top) < infinity and abs(bottom) < infinity and width < np.inf
        left[i] = np.uint8(0) if is_finite else np.uint8(1)


@jit
def _find_codes(
    source: Array,
    is_half: Flag,
    is_wide: Flag,
    scale: Array,
    bias: Array,
    last_code: np.float32,
    codes: Array,
) -> None:
    length = columns(source, 16, 8)
    for group in range(source.shape[0]):
        step, start = scale[group], bias[group]
        for i in range(length):
            value = widen(source[group, i], is_half, is_wide)
            quotient = min(np.float32(np.float32(value - start) / step), last_code)
            whole = np.int32(quotient)
            # Exact: a half is not to be rounded to even, nor what is just below it up.
            rest = np.float32(quotient - np.float32(whole))
            rounds_up = np.int32(1) if rest >= np.float32(0.5) else np.int32(0)
            codes[group, i] = np.uint8(np.int32(whole + rounds_up))
