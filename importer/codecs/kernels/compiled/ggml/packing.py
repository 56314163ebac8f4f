"""Codes of blocks that follow from their scales, and how they are packed, compiled."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import narrow, widen
from importer.codecs.kernels.compiled.jit import Array, jit
from importer.codecs.kernels.compiled.lanes import columns

_ROUNDER: Final = np.float32(3 << 22)
_INFINITE: Final = np.uint16(0x7C00)
_FINITE: Final = np.uint32(0x7F80_0000)


@jit
def put_f16(block: Array, place: int, number: np.float32) -> np.float32:
    """Write a number at a place, rounded to F16, and return it as it is read from there.

    That is 2 ** 16 or more where it is too large.
    """
    bits = np.uint16(narrow(number, True, None))
    block[place] = np.uint8(bits)
    block[place + 1] = np.uint8(bits >> np.uint16(8))
    return widen(bits, True, None)


@jit
def is_infinite(number: np.float32) -> bool:
    """Return whether `put_f16` had a number that is too large, or NaN."""
    return not abs(number) < np.float32(2**16)


@jit
def find_infinite(rows: Array, left: Array) -> None:
    """Write 1 for each row of float32 that has a number which is not finite, and 0 else."""
    for number in range(len(rows)):
        row, largest = rows[number], np.uint32(0)
        for i in range(row.size):
            bits = np.uint32(np.float32(row[i]).view(np.uint32) & np.uint32(0x7FFF_FFFF))
            largest = max(largest, bits)
        left[number] = np.uint8(0) if largest < _FINITE else np.uint8(1)


@jit
def nearest(number: np.float32) -> np.int32:
    """Round as `reference.ggml.quantize.rounding.nearest`."""
    bits = np.float32(number + _ROUNDER).view(np.int32)
    return np.int32(np.int32(bits & np.int32(0x7F_FFFF)) - np.int32(1 << 22))


@jit
def recode(
    groups: Array, steps: Array, starts: Array, first_code: int, last_code: int, codes: Array
) -> None:
    """Replace codes by those that stored scales give; where a step is 0 they stay.

    Args:
        groups: float32 of shape (groups, elements), 16 or 32 of them.
        steps: of each group, as `starts`, which is added to the values.
        codes: uint8, as `groups`: from 0 on, which stands for `first_code`.
    """
    length = columns(groups, 16, 2)
    low, high = np.int32(first_code), np.int32(last_code)
    for number in range(len(groups)):
        group, own, step, start = groups[number], codes[number], steps[number], starts[number]
        if step != np.float32(0):
            for i in range(length):
                code = nearest(np.float32(np.float32(group[i] + start) / step))
                code = min(max(code, low), high)
                own[i] = np.uint8(np.int32(code - low))


@jit
def put_nibbles(codes: Array, count: int, packed: Array) -> None:
    """Write the low four bits of 2 * count codes: the first `count` in the low halves."""
    for i in range(count):
        high = np.uint8(codes[count + i] << np.uint8(4))
        packed[i] = np.uint8(np.uint8(codes[i] & np.uint8(15)) | high)


@jit
def put_pairs(codes: Array, shift: int, packed: Array) -> None:
    """Write two bits of 128 codes, from the bit `shift` on: the first 32 in the lowest bits."""
    place = np.uint8(shift)
    for i in range(32):
        byte = np.uint8(0)
        for k in range(4):
            pair = np.uint8(np.uint8(codes[32 * k + i] >> place) & np.uint8(3))
            byte = np.uint8(byte | np.uint8(pair << np.uint8(2 * k)))
        packed[i] = byte


@jit
def put_bits(codes: Array, shift: int, packed: Array) -> None:
    """Write the bit `shift` of 256 codes: the first 32 in the lowest bits."""
    place = np.uint8(shift)
    for i in range(32):
        byte = np.uint8(0)
        for k in range(8):
            bit = np.uint8(np.uint8(codes[32 * k + i] >> place) & np.uint8(1))
            byte = np.uint8(byte | np.uint8(bit << np.uint8(k)))
        packed[i] = byte


@jit
def put_fifth_bits(codes: Array, packed: Array) -> None:
    """Write the fifth bits of 32 codes, in their order."""
    for k in range(4):
        byte = np.uint8(0)
        for i in range(8):
            bit = np.uint8(np.uint8(codes[8 * k + i] >> np.uint8(4)) & np.uint8(1))
            byte = np.uint8(byte | np.uint8(bit << np.uint8(i)))
        packed[k] = byte


@jit
def put_four_bit_scales(scales: Array, minima: Array, packed: Array) -> None:
    """Write sixteen scales and minima, as they are in Q2_K."""
    for j in range(16):
        packed[j] = np.uint8(scales[j] | np.uint8(minima[j] << np.uint8(4)))


@jit
def put_six_bit_scales(scales: Array, minima: Array, packed: Array) -> None:
    """Write eight scales and minima below 64, as they are in Q4_K and Q5_K."""
    four, six = np.uint8(4), np.uint8(6)
    for j in range(4):
        scale, minimum = scales[4 + j], minima[4 + j]
        packed[j] = np.uint8(scales[j] | np.uint8(np.uint8(scale >> four) << six))
        packed[4 + j] = np.uint8(minima[j] | np.uint8(np.uint8(minimum >> four) << six))
        low = np.uint8(scale & np.uint8(15))
        packed[8 + j] = np.uint8(low | np.uint8(minimum << four))


@jit
def put_signed_scales(scales: Array, packed: Array) -> None:
    """Write sixteen scales of six bits, as they are in Q3_K."""
    for j in range(8):
        low, high = np.uint8(scales[j] & np.uint8(15)), np.uint8(scales[8 + j] << np.uint8(4))
        packed[j] = np.uint8(low | high)
    for j in range(4):
        byte = np.uint8(0)
        for k in range(4):
            pair = np.uint8(scales[4 * k + j] >> np.uint8(4))
            byte = np.uint8(byte | np.uint8(pair << np.uint8(2 * k)))
        packed[8 + j] = byte


@jit
def leave(left: Array, block: int, blocks: int) -> None:
    """Flag the row that a block is in, of so many blocks."""
    left[block * left.size // blocks] = np.uint8(1)
