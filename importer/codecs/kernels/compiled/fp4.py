"""MXFP4 and NVFP4, compiled: the reference modules, for groups in the domain of ranges.py."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import e4m3_to_f32, e8m0_to_f32, narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns, pack, unpack
from importer.codecs.kernels.compiled.magnitudes import (
    e4m3_scales,
    e8m0_scales,
    find_largest,
)

_CODES_PER_WORD: Final = 8
_TWICE: Final = np.uint32(0xC864_3210)
"""Twice the magnitude of each code, 0, 1, 2, 3, 4, 6, 8, 12, four bits for each."""
_LAST_OF_ONE: Final = 3 * 2**22 - 1
"""From 1 on, codes are the exponent and one digit; this is below 3 = 1.5 of them."""


@jit
def encode(
    source: Array,
    is_half: Flag,
    is_wide: Flag,
    is_nvfp4: Flag,
    lowest: int,
    highest: int,
    middles: Array,
    sizes: Array,
    lines: Array,
    codes: Array,
    lanes: Array,
    words: Array,
    scales: Array,
    left: Array,
) -> None:
    """Quantize groups.

    Args:
        source: bits, of shape (groups, group size).
        lowest: bits of the first magnitude of the domain, as `highest` is of the first above.
        middles: bits of the largest quotients with codes 0, 1 and 2.
        sizes: scratch of a block, as `lines`, `codes` and `lanes` are.
        left: 1 for each group outside the domain.
    """
    group_words = source.shape[1] // _CODES_PER_WORD
    divisors = lines[0]
    for number in range(blocks(source, codes)):
        first = number * len(codes)
        block = source[first : first + len(codes)]
        part = slice(first, first + len(block))
        find_largest(block, is_wide, lowest, highest, sizes, left[part])
        if is_nvfp4 is None:
            e8m0_scales(sizes, is_half, is_wide, np.float32(6), scales[part])
        else:
            e4m3_scales(sizes, is_half, is_wide, scales[part])
        find_divisors(scales[part], is_nvfp4, divisors)
        find_codes(block, is_half, is_wide, divisors, middles, codes)
        pack(lanes, 4, None, words[first * group_words :][: len(block) * group_words])


@jit
def find_divisors(scales: Array, is_nvfp4: Flag, divisors: Array) -> None:
    """Find what values are divided by."""
    for i in range(scales.size):
        if is_nvfp4 is None:
            divisors[i] = np.uint32(np.uint32(scales[i]) << np.uint32(23)).view(np.float32)
        else:
            # Under a scale of 0 everything is 0.
            divisors[i] = e4m3_to_f32(scales[i]) if scales[i] > 0 else np.float32(np.inf)


@jit
def find_codes(
    source: Array, is_half: Flag, is_wide: Flag, divisors: Array, middles: Array, codes: Array
) -> None:
    """Find the codes of the quotients; arrays are those of `encode`."""
    first, second = middles[0], middles[1]
    carry = np.int32(np.int32(_LAST_OF_ONE) - middles[2])
    length = columns(source, 16, 2)
    for group in range(source.shape[0]):
        divisor = divisors[group]
        for i in range(length):
            value = widen(source[group, i], is_half, is_wide)
            bits = np.float32(value / divisor).view(np.int32)
            size = np.int32(bits & np.int32(0x7FFF_FFFF))
            code = np.int32(np.int32(size + carry) >> np.int32(22))
            code = max(code, np.int32(2)) if size > second else np.int32(1)
            sign = np.int32(np.int32(bits >> np.int32(28)) & np.int32(8))
            code = np.int32(np.int32(min(code, np.int32(7)) & np.int32(7)) | sign)
            # What becomes 0 has no sign.
            codes[group, i] = np.uint8(code if size > first else np.int32(0))


@jit
def decode(
    words: Array,
    scales: Array,
    is_half: Flag,
    is_wide: Flag,
    is_nvfp4: Flag,
    last_scale: int,
    lines: Array,
    codes: Array,
    lanes: Array,
    values: Array,
    left: Array,
) -> None:
    """Undo `encode`, whose arrays these are.

    Args:
        last_scale: the largest byte that is a finite scale.
        left: 1 for each group whose scale is negative or not finite.
    """
    group_words = values.shape[1] // _CODES_PER_WORD
    halves = lines[0]
    for number in range(blocks(values, codes)):
        first = number * len(codes)
        block = values[first : first + len(codes)]
        for i in range(len(block)):
            byte = scales[first + i]
            scale = e8m0_to_f32(byte) if is_nvfp4 is None else e4m3_to_f32(byte)
            scale = widen(narrow(scale, is_half, is_wide), is_half, is_wide)
            halves[i] = np.float32(scale * np.float32(0.5))
            left[first + i] = np.uint8(0) if byte <= last_scale else np.uint8(1)
        unpack(words[first * group_words :][: len(block) * group_words], 4, None, lanes)
        _find_values(codes, halves, is_half, is_wide, block)


@jit
def _find_values(
    codes: Array, halves: Array, is_half: Flag, is_wide: Flag, values: Array
) -> None:
    length = columns(values, 16, 2)
    for group in range(values.shape[0]):
        half = halves[group]
        for i in range(length):
            code = np.uint32(codes[group, i])
            place = np.uint32(np.uint32(code & np.uint32(7)) << np.uint32(2))
            twice = np.int32(np.uint32(_TWICE >> place) & np.uint32(15))
            size = np.float32(np.float32(twice) * half).view(np.uint32)
            sign = np.uint32(np.uint32(code & np.uint32(8)) << np.uint32(28))
            value = np.uint32(size | sign).view(np.float32)
            values[group, i] = narrow(value, is_half, is_wide)
