"""UQFF's MXFP4, compiled: `reference/uqff_mxfp4.py`, for groups in the domain of ranges.py."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns, pack
from importer.codecs.kernels.compiled.magnitudes import find_largest

_CODES_PER_WORD: Final = 8
_QUARTER: Final = 125 << 23
"""The bits of the least size whose code is 1."""
_THREE_QUARTERS: Final = 0x3F40_0000
"""The bits of the least size whose code is 2."""
_CARRY: Final = (1 << 21) - (252 << 22)
"""From 1 on, codes are the exponent and one digit; half of that digit rounds up."""


@jit
def encode(
    source: Array,
    is_half: Flag,
    is_wide: Flag,
    lowest: int,
    highest: int,
    rounded_up: Array,
    sizes: Array,
    lines: Array,
    codes: Array,
    lanes: Array,
    words: Array,
    scales: Array,
    left: Array,
) -> None:
    """Quantize groups; the arguments are those of `fp4.encode`.

    Args:
        rounded_up: for each exponent of float32 the digits from which on its logarithm is
            that of the next power of two.
    """
    group_words = source.shape[1] // _CODES_PER_WORD
    factors = lines[0]
    for number in range(blocks(source, codes)):
        first = number * len(codes)
        block = source[first : first + len(codes)]
        part = slice(first, first + len(block))
        find_largest(block, is_wide, lowest, highest, sizes, left[part])
        _find_scales(sizes, is_half, is_wide, rounded_up, factors, scales[part])
        _find_codes(block, is_half, is_wide, factors, codes)
        pack(lanes, 4, None, words[first * group_words :][: len(block) * group_words])


@jit
def _find_scales(
    sizes: Array,
    is_half: Flag,
    is_wide: Flag,
    rounded_up: Array,
    factors: Array,
    scales: Array,
) -> None:
    for i in range(scales.size):
        size = widen(sizes[i], is_half, is_wide)
        bits = np.float32(size / np.float32(6)).view(np.uint32)
        # Of a group outside the domain the sign is 0, too; its result is void.
        exponent = np.uint32(np.uint32(bits >> np.uint32(23)) & np.uint32(255))
        digits = np.uint32(bits & np.uint32(0x7F_FFFF))
        if digits >= rounded_up[exponent]:
            exponent = np.uint32(exponent + np.uint32(1))
        scale = exponent if size > np.float32(0) else np.uint32(127)
        scales[i] = np.uint8(scale)
        inverse = np.uint32(np.uint32(254) - min(scale, np.uint32(254)))
        factors[i] = np.uint32(inverse << np.uint32(23)).view(np.float32)


@jit
def _find_codes(
    source: Array, is_half: Flag, is_wide: Flag, factors: Array, codes: Array
) -> None:
    length = columns(source, 16, 2)
    for group in range(source.shape[0]):
        factor = factors[group]
        for i in range(length):
            value = widen(source[group, i], is_half, is_wide)
            bits = np.float32(value * factor).view(np.int32)
            size = np.int32(bits & np.int32(0x7FFF_FFFF))
            large = np.int32(np.int32(size + np.int32(_CARRY)) >> np.int32(22))
            large = max(min(large, np.int32(7)), np.int32(2))
            code = large if size >= np.int32(_THREE_QUARTERS) else np.int32(1)
            code = code if size >= np.int32(_QUARTER) else np.int32(0)
            sign = np.int32(np.int32(bits >> np.int32(28)) & np.int32(8))
            # -0 has no sign.
            codes[group, i] = np.uint8(code | (sign if size > np.int32(0) else np.int32(0)))
