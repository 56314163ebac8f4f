"""Affine quantization, compiled: `reference/affine.py`, for finite values and scales.

The extremes of a group are found among integers (`extremes`). All else is the same float32
operations.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.extremes import find_keys, join_spans, key_of
from importer.codecs.kernels.compiled.floats import narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns, pack, unpack

_ROUNDER: Final = np.float32(2**23)
"""Added to a float32 between 0 and 2 ** 22, leaves the nearest integer in the low bits."""


@jit
def encode(
    source: Array,
    spans: Array,
    is_half: Flag,
    is_wide: Flag,
    bits: int,
    is_rare: Flag,
    smallest_step: np.float32,
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
    """Quantize groups.

    Args:
        source: bits, of shape (groups, group size).
        spans: the same memory in rows of at most 64.
        is_rare: of `pack`.
        keys: scratch of a block, as `lines`, `codes` and `lanes` are.
        bytes_: the memory of `words`, in groups, if there are 8 bits.
        left: 1 for each group that is not finite.
    """
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
        find_scales(
            high, low, is_half, is_wide, last_code, smallest_step, scale, bias, left[part]
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
            # From 0 to last_code, which are integers, rounding and clamping can change
            # places.
            value = widen(source[group, i], is_half, is_wide)
            code = np.float32(np.float32(value - start) / step)
            code = max(np.float32(0), code)
            code = min(last_code, code)
            codes[group, i] = np.uint8(np.float32(code + _ROUNDER).view(np.uint32))


@jit
def find_scales(
    high: Array,
    low: Array,
    is_half: Flag,
    is_wide: Flag,
    last_code: np.float32,
    smallest_step: np.float32,
    scale: Array,
    bias: Array,
    left: Array,
) -> None:
    """Find the scale and bias of each group, and flag those that are not finite."""
    # An F16 that is not finite is widened to a number.
    infinity = np.float32(np.inf) if is_half is None else np.float32(2**16)
    for i in range(left.size):
        top = widen(key_of(high[i], is_wide), is_half, is_wide)
        bottom = widen(key_of(low[i], is_wide), is_half, is_wide)
        is_low = abs(bottom) > abs(top)
        edge = bottom if is_low else top
        step = np.float32(np.float32(top - bottom) / last_code)
        step = max(step, smallest_step)
        step = step if is_low else np.float32(-step)
        steps_to_zero = np.float32(np.rint(np.float32(edge / step)))
        has_bias = steps_to_zero != np.float32(0)
        scale[i] = np.float32(edge / steps_to_zero) if has_bias else step
        bias[i] = edge if has_bias else np.float32(0)
        # Also where it is NaN.
        is_finite = abs(top) < infinity and abs(bottom) < infinity
        left[i] = np.uint8(0) if is_finite else np.uint8(1)


@jit
def decode(
    words: Array,
    bytes_: Array | None,
    scales: Array,
    biases: Array,
    is_half: Flag,
    is_wide: Flag,
    bits: int,
    is_rare: Flag,
    largest: np.float32,
    lines: Array,
    codes: Array,
    lanes: Array,
    values: Array,
    left: Array,
) -> None:
    """Undo `encode`, whose arrays these are.

    Args:
        largest: finite number of the dtype.
        left: 1 for each group with a number that is not finite.
    """
    group_words = values.shape[1] * bits // 32
    scale, bias = lines[0], lines[1]
    last_code = np.float32((1 << bits) - 1)
    for number in range(blocks(values, codes)):
        first = number * len(codes)
        block = values[first : first + len(codes)]
        part = slice(first, first + len(block))
        for i in range(len(block)):
            scale[i] = widen(scales[first + i], is_half, is_wide)
            bias[i] = widen(biases[first + i], is_half, is_wide)
            product = np.float32(abs(scale[i]) * last_code)
            is_finite = product <= largest and abs(bias[i]) <= largest
            left[first + i] = np.uint8(0) if is_finite else np.uint8(1)
        if bytes_ is not None:
            _find_values(bytes_[part], scale, bias, is_half, is_wide, block)
        else:
            part_words = words[first * group_words :][: len(block) * group_words]
            unpack(part_words, bits, is_rare, lanes)
            _find_values(codes, scale, bias, is_half, is_wide, block)


@jit
def _find_values(
    codes: Array, scale: Array, bias: Array, is_half: Flag, is_wide: Flag, values: Array
) -> None:
    length = columns(values, 16, 8)
    for group in range(values.shape[0]):
        step, start = scale[group], bias[group]
        for i in range(length):
            product = np.float32(np.float32(codes[group, i]) * step)
            product = widen(narrow(product, is_half, is_wide), is_half, is_wide)
            values[group, i] = narrow(np.float32(product + start), is_half, is_wide)
