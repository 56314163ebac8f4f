"""MXFP4 and NVFP4, compiled: the arithmetic modules for the domain of magnitudes.py."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.arithmetic import Bits, floats
from importer.codecs.kernels.floats import e4m3_to_f32, e8m0_to_f32, narrow, widen
from importer.codecs.kernels.jit import Array, Flag, flag, jit
from importer.codecs.kernels.lanes import BLOCK, columns, pack, unpack
from importer.codecs.kernels.magnitudes import (
    domain,
    e4m3_scales,
    e8m0_scales,
    find_largest,
    last_e8m0,
)
from importer.quant import Mode, QuantSpec

_CODES_PER_WORD: Final = 8
_LAST_E4M3: Final = 0x7E
_TWICE: Final = np.uint32(0xC864_3210)
"""Twice the magnitude of each code, 0, 1, 2, 3, 4, 6, 8, 12, four bits for each."""
_LAST_OF_ONE: Final = 3 * 2**22 - 1
"""From 1 on, codes are the exponent and one digit; this is below 3 = 1.5 of them."""


def encode(
    source: Bits, dtype: str, spec: QuantSpec, words: Array, companions: Sequence[Array]
) -> Array:
    """Fill `words` and `companions`; give a flag for each group outside the domain."""
    (scales,) = companions
    left = np.empty(len(source), np.uint8)
    lowest, highest = domain(dtype)
    _encode(
        source,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        flag(spec.mode is Mode.NVFP4),
        lowest,
        highest,
        _middles(dtype),
        np.empty(BLOCK // source.shape[1], source.dtype),
        words.reshape(-1),
        scales,
        left,
    )
    return left


def _middles(dtype: str) -> npt.NDArray[np.int32]:
    """Give the bits of the largest float32 quotients with codes 0, 1 and 2.

    That is halfway between two codes, and what `dtype` rounds to halfway: half a digit more,
    as all middles are even numbers of a 16-bit dtype.
    """
    middles = np.array([0.25, 0.75, 1.25], np.float32)
    if dtype != "F32":
        following = floats.widen(floats.narrow(middles, dtype) + np.uint16(1), dtype)
        middles = (middles + following) / np.float32(2)
    return middles.view(np.int32)


@jit
def _encode(
    source: Array,
    is_half: Flag,
    is_wide: Flag,
    is_nvfp4: Flag,
    lowest: int,
    highest: int,
    middles: Array,
    sizes: Array,
    words: Array,
    scales: Array,
    left: Array,
) -> None:
    group_size = source.shape[1]
    per_block = BLOCK // group_size
    group_words = group_size // _CODES_PER_WORD
    divisors = np.empty(per_block, np.float32)
    lanes = np.empty(BLOCK // 8, np.uint64)
    codes = lanes.view(np.uint8).reshape(per_block, group_size)
    for first in range(0, len(source), per_block):
        block = source[first : first + per_block]
        part = slice(first, first + len(block))
        find_largest(block, is_wide, lowest, highest, sizes, left[part])
        if is_nvfp4 is None:
            e8m0_scales(sizes, is_half, is_wide, np.float32(6), scales[part])
        else:
            e4m3_scales(sizes, is_half, is_wide, scales[part])
        _find_divisors(scales[part], is_nvfp4, divisors)
        _find_codes(block, is_half, is_wide, divisors, middles, codes)
        pack(lanes, 4, None, words[first * group_words :][: len(block) * group_words])


@jit
def _find_divisors(scales: Array, is_nvfp4: Flag, divisors: Array) -> None:
    for i in range(scales.size):
        if is_nvfp4 is None:
            divisors[i] = np.uint32(np.uint32(scales[i]) << np.uint32(23)).view(np.float32)
        else:
            # Under a scale of 0 everything is 0.
            divisors[i] = e4m3_to_f32(scales[i]) if scales[i] > 0 else np.float32(np.inf)


@jit
def _find_codes(
    source: Array, is_half: Flag, is_wide: Flag, divisors: Array, middles: Array, codes: Array
) -> None:
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


def decode(
    words: Array, companions: Sequence[Array], dtype: str, spec: QuantSpec, values: Bits
) -> Array:
    """Fill `values`; give a flag for each group whose scale is negative or not finite."""
    (scales,) = companions
    left = np.empty(len(values), np.uint8)
    is_nvfp4 = spec.mode is Mode.NVFP4
    _decode(
        words.reshape(-1),
        scales,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        flag(is_nvfp4),
        _LAST_E4M3 if is_nvfp4 else last_e8m0(dtype),
        values,
        left,
    )
    return left


@jit
def _decode(
    words: Array,
    scales: Array,
    is_half: Flag,
    is_wide: Flag,
    is_nvfp4: Flag,
    last_scale: int,
    values: Array,
    left: Array,
) -> None:
    group_size = values.shape[1]
    per_block = BLOCK // group_size
    group_words = group_size // _CODES_PER_WORD
    halves = np.empty(per_block, np.float32)
    lanes = np.empty(BLOCK // 8, np.uint64)
    codes = lanes.view(np.uint8).reshape(per_block, group_size)
    for first in range(0, len(values), per_block):
        block = values[first : first + per_block]
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
