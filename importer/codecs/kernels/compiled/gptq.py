"""GPTQ's and AWQ's values, compiled: `reference/gptq.py`.

Words are transposed before their codes are unpacked, since they are fewer.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays
# ruff: noqa: PLR2004 - each number of bits is a case

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.jit import Array, jit
from importer.codecs.kernels.compiled.lanes import unpack


@jit
def decode_rows(
    words: Array,
    is_natural: int,
    bits: int,
    is_planar: int,
    zeros: Array,
    scales: Array,
    groups: Array,
    group_size: int,
    lines: Array,
    bytes_: Array,
    lanes: Array,
    codes: Array,
    values: Array,
) -> None:
    """Decode what is packed along the columns of the weight.

    Args:
        words: of shape (words of a row, rows), or the other way around where `is_natural`.
        groups: of the columns; used where `group_size` is 0.
        lines: scratch for some rows' words, rounded up to whole blocks of 32 codes; zeros.
        bytes_: the same memory.
        lanes: scratch for a row's codes, and `codes` the same memory.
    """
    for block in range((values.shape[0] + lines.shape[0] - 1) // lines.shape[0]):
        first = block * lines.shape[0]
        count = min(lines.shape[0], values.shape[0] - first)
        _gather(words, is_natural, first, count, lines)
        for row in range(count):
            if bits == 8:
                _scale(bytes_[row], zeros, scales, groups, group_size, first + row, values)
                continue
            if is_planar:
                _join_planes(lines[row], bits, codes)
            elif bits == 4:
                unpack(lines[row], 4, None, lanes)
            else:
                unpack(lines[row], bits, True, lanes)
            _scale(codes, zeros, scales, groups, group_size, first + row, values)


@jit
def _gather(words: Array, is_natural: int, first: int, count: int, lines: Array) -> None:
    """Copy the words of some rows to lines."""
    if is_natural:
        for row in range(count):
            for word in range(words.shape[1]):
                lines[row, word] = words[first + row, word]
    else:
        for word in range(words.shape[0]):
            for row in range(count):
                lines[row, word] = words[word, first + row]


@jit
def _join_planes(line: Array, bits: int, codes: Array) -> None:
    for block in range(line.size // bits):
        start, word = block * 32, block * bits
        low = 2 if bits == 3 else 4
        for i in range(32):
            at = np.uint32(np.uint32(i) * np.uint32(low))
            field = line[word + (i * low >> 5)] >> np.uint32(at & np.uint32(31))
            codes[start + i] = np.uint8(field & np.uint32((1 << low) - 1))
        word += low
        if bits > 5:
            for i in range(32):
                field = line[word + (i >> 4)] >> np.uint32(2 * (i & 15))
                codes[start + i] |= np.uint8(np.uint32(field & np.uint32(3)) << np.uint32(4))
            word += 2
        if bits != 6:
            for i in range(32):
                field = np.uint32(line[word] >> np.uint32(i)) & np.uint32(1)
                codes[start + i] |= np.uint8(np.uint32(field) << np.uint32(bits - 1))


@jit
def _scale(
    codes: Array,
    zeros: Array,
    scales: Array,
    groups: Array,
    group_size: int,
    row: int,
    values: Array,
) -> None:
    columns = values.shape[1]
    if group_size == 0:
        for i in range(columns):
            group = groups[i]
            value = np.float32(np.float32(codes[i]) - zeros[row, group])
            values[row, i] = np.float32(value * scales[row, group])
        return
    for group in range((columns + group_size - 1) // group_size):
        first = group * group_size
        zero, scale = zeros[row, group], scales[row, group]
        for i in range(min(group_size, columns - first)):
            value = np.float32(np.float32(codes[first + i]) - zero)
            values[row, first + i] = np.float32(value * scale)


@jit
def decode_columns(
    words: Array,
    bits: int,
    zeros: Array,
    scales: Array,
    group_size: int,
    lines: Array,
    values: Array,
) -> None:
    """Decode what is packed along the rows of the weight.

    Args:
        words: of shape (columns, words).
        lines: scratch for the words of a block, and one more; zeros.
    """
    high = 8 if bits == 4 else 32
    width = high * bits // 32
    mask = np.uint32((1 << bits) - 1)
    for block in range((values.shape[0] + high - 1) // high):
        first = block * width
        count = min(width, words.shape[1] - first)
        for column in range(values.shape[1]):
            for word in range(count):
                lines[word, column] = words[column, first + word]
        for row in range(min(high, values.shape[0] - block * high)):
            # The inverse of 0, 2, 4, 6, 1, 3, 5, 7.
            place = (row >> 1) + 4 * (row & 1) if bits == 4 else row
            word, shift = place * bits >> 5, np.uint32(place * bits & 31)
            is_cut = int(shift) > 32 - bits
            _shift(
                lines[word],
                lines[word + 1],
                shift,
                is_cut,
                mask,
                zeros,
                scales,
                group_size,
                block * high + row,
                values,
            )


@jit
def _shift(
    low: Array,
    high: Array,
    shift: np.uint32,
    is_cut: bool,  # noqa: FBT001
    mask: np.uint32,
    zeros: Array,
    scales: Array,
    group_size: int,
    row: int,
    values: Array,
) -> None:
    columns = values.shape[1]
    for group in range((columns + group_size - 1) // group_size):
        first = group * group_size
        zero, scale = zeros[row, group], scales[row, group]
        if is_cut:
            rest = np.uint32(np.uint32(32) - shift)
            for i in range(min(group_size, columns - first)):
                field = np.uint32(low[first + i] >> shift) | np.uint32(high[first + i] << rest)
                value = np.float32(np.float32(np.uint32(field & mask)) - zero)
                values[row, first + i] = np.float32(value * scale)
        else:
            for i in range(min(group_size, columns - first)):
                field = np.uint32(low[first + i] >> shift)
                value = np.float32(np.float32(np.uint32(field & mask)) - zero)
                values[row, first + i] = np.float32(value * scale)
