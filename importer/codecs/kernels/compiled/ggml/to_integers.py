"""Values to integers under one scale, compiled: `reference/ggml/quantize/one_scale.py`.

Arguments of all functions:
    values: float32, of shape (blocks, elements of a block).
    blocks: of shape (blocks, bytes of a block).
    left: 1 for each block, or row, that numpy has to do.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.ggml import packing, search, symmetric, tiles
from importer.codecs.kernels.compiled.ggml.scratch import TOGETHER
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns

_LARGE: Final = np.float32(2.0**100)
_SMALL: Final = np.float32(2.0**-100)
_INTEGER: Final = np.float32(2**23)


@jit
def q8_0(values: Array, blocks: Array, left: Array) -> None:
    """Quantize to Q8_0."""
    length = columns(values, 16, 2)
    for number in range(len(blocks)):
        own, block = values[number], blocks[number]
        largest = _largest(own, length)
        step = np.float32(largest / np.float32(127))
        divisor = _reciprocal(step)
        scale = packing.put_f16(block, 0, step)
        codes = block[2:]
        for i in range(length):
            codes[i] = np.uint8(_away(np.float32(own[i] * divisor)))
        left[number] = _is_outside(largest, scale)


@jit
def q4_0_to_q5_1(
    values: Array,
    has_minimum: Flag,
    has_fifth_bit: Flag,
    codes: Array,
    blocks: Array,
    left: Array,
) -> None:
    """Quantize to Q4_0, Q4_1, Q5_0 or Q5_1; `codes` is scratch for those of a block."""
    length = columns(values, 16, 2)
    last = np.int32(15 if has_fifth_bit is None else 31)
    half = np.float32(8 if has_fifth_bit is None else 16)
    for number in range(len(blocks)):
        own, block = values[number], blocks[number]
        largest = _largest(own, length)
        if has_minimum is None:
            step = np.float32(_signed(own, largest) / np.float32(-half))
            low, middle = np.float32(0), np.float32(half + np.float32(0.5))
            start = np.float32(0)
        else:
            low = _extreme(own, length, None)
            high = _extreme(own, length, True)
            step = np.float32(np.float32(high - low) / np.float32(last))
            middle = np.float32(0.5)
            start = packing.put_f16(block, 2, low)
        divisor = _reciprocal(step)
        scale = packing.put_f16(block, 0, step)
        for i in range(length):
            moved = np.float32(np.float32(own[i] - low) * divisor)
            codes[i] = np.uint8(min(np.int32(np.float32(moved + middle)), last))
        outside = _is_outside(largest, scale)
        left[number] = np.uint8(outside | np.uint8(packing.is_infinite(start)))
        if step != np.float32(0) and abs(step) < _SMALL:
            left[number] = np.uint8(1)
        _put(codes, has_minimum, has_fifth_bit, block)


@jit
def weighted(
    values: Array,
    rows: Array,
    importance: Array,
    has_minimum: Flag,
    has_fifth_bit: Flag,
    lanes: Array,
    found: Array,
    numbers: Array,
    energies: Array,
    codes: Array,
    blocks: Array,
    left: Array,
) -> None:
    """Quantize to Q4_0, Q4_1, Q5_0 or Q5_1 where columns differ in importance.

    Args:
        rows: the memory of `values`, of shape (rows, columns).
        lanes: scratch, as `found`, `numbers` and `codes`: scratch.py.
        energies: scratch, one for each row.
    """
    packing.find_infinite(rows, left)
    tiles.find_energies(rows, np.float32(1), energies)
    last = np.float32(15 if has_fifth_bit is None else 31)
    half = np.float32(8 if has_fifth_bit is None else 16)
    scales, minima = numbers[0], numbers[1]
    for batch in range((len(blocks) + TOGETHER - 1) // TOGETHER):
        first = TOGETHER * batch
        tiles.fill(values, first, lanes[0])
        tiles.weigh_by_importance(
            lanes[0], importance, 0, energies, first, len(values), 32, found, lanes[1]
        )
        if has_minimum is None:
            symmetric.symmetric(lanes[0], lanes[1], lanes[2], 32, half, found)
        else:
            search.with_minimum(
                lanes[0],
                lanes[1],
                lanes[2],
                32,
                last,
                np.float32(-0.9),
                np.float32(0.05),
                36,
                True,
                found,
            )
            tiles.keep_line(found[search.MINIMUM], 0, minima[:TOGETHER])
        tiles.keep(lanes[2], 0, codes[:TOGETHER])
        tiles.keep_line(found[search.SCALE], 0, scales[:TOGETHER])
        for j in range(min(TOGETHER, len(blocks) - first)):
            block = blocks[first + j]
            is_left = found[search.IS_LEFT, j] != np.float32(0)
            is_left = is_left or packing.is_infinite(packing.put_f16(block, 0, scales[j]))
            if has_minimum is not None:
                low = packing.put_f16(block, 2, np.float32(-minima[j]))
                is_left = is_left or packing.is_infinite(low)
            if is_left:
                packing.leave(left, first + j, len(blocks))
            _put(codes[j], has_minimum, has_fifth_bit, block)


@jit
def tq1_0(values: Array, trits: Array, blocks: Array, left: Array) -> None:
    """Quantize to TQ1_0; `trits` is scratch for those of a block."""
    for number in range(len(blocks)):
        block = blocks[number]
        left[number] = _find_trits(values[number], trits, block, 52)
        _put_trits(trits, 32, 5, block)
        _put_trits(trits[160:], 16, 5, block[32:])
        _put_trits(trits[240:], 4, 4, block[48:])


@jit
def tq2_0(values: Array, trits: Array, blocks: Array, left: Array) -> None:
    """Quantize to TQ2_0; `trits` is scratch for those of a block."""
    for number in range(len(blocks)):
        block = blocks[number]
        left[number] = _find_trits(values[number], trits, block, 64)
        packing.put_pairs(trits, 0, block)
        packing.put_pairs(trits[128:], 0, block[32:])


@jit
def _find_trits(own: Array, trits: Array, block: Array, place: int) -> np.uint8:
    largest = _largest(own, len(own))
    divisor = _reciprocal(largest)
    scale = packing.put_f16(block, place, largest)
    for i in range(len(own)):
        code = _away(np.float32(own[i] * divisor))
        trits[i] = np.uint8(np.int32(code + np.int32(1)))
    return _is_outside(largest, scale)


@jit
def _put_trits(trits: Array, count: int, digits: int, packed: Array) -> None:
    for i in range(count):
        number = np.uint32(0)
        for digit in range(5):
            number = np.uint32(number * np.uint32(3))
            if digit < digits:
                number = np.uint32(number + np.uint32(trits[digit * count + i]))
        # As a fraction of 256, rounded up.
        number = np.uint32(np.uint32(number * np.uint32(256)) + np.uint32(242))
        packed[i] = np.uint8(number // np.uint32(243))


@jit
def _put(codes: Array, has_minimum: Flag, has_fifth_bit: Flag, block: Array) -> None:
    packed = block[2:] if has_minimum is None else block[4:]
    if has_fifth_bit is not None:
        packing.put_fifth_bits(codes, packed)
        packed = packed[4:]
    packing.put_nibbles(codes, 16, packed)


@jit
def _largest(own: Array, length: int) -> np.float32:
    """Return the largest magnitude; where a value is not finite, a number that is not."""
    largest = np.uint32(0)
    for i in range(length):
        bits = np.uint32(np.float32(own[i]).view(np.uint32) & np.uint32(0x7FFF_FFFF))
        largest = max(largest, bits)
    return np.uint32(largest).view(np.float32)


@jit
def _signed(own: Array, largest: np.float32) -> np.float32:
    """Return the first number of the largest magnitude, and 0 for -0."""
    for i in range(len(own)):
        if abs(own[i]) == largest:
            return np.float32(own[i]) if largest > np.float32(0) else np.float32(0)
    return np.float32(0)


@jit
def _extreme(own: Array, length: int, is_highest: Flag) -> np.float32:
    """Return the highest number, or the lowest; of zeros the first."""
    # Integers that are ordered as the numbers are: LLVM has vectors for these.
    key = _key(own[0])
    for i in range(length):
        other = _key(own[i])
        key = min(key, other) if is_highest is None else max(key, other)
    number = np.int32(_flipped(key)).view(np.float32)
    if number == np.float32(0):
        for i in range(length):
            if own[i] == np.float32(0):
                return np.float32(own[i])
    return np.float32(number)


@jit
def _key(number: np.float32) -> np.int32:
    return _flipped(np.float32(number).view(np.int32))


@jit
def _flipped(bits: np.int32) -> np.int32:
    """Turn bits of a float32 into an integer that is ordered as it is, and back."""
    return np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & np.int32(0x7FFF_FFFF)))


@jit
def _reciprocal(number: np.float32) -> np.float32:
    return np.float32(np.float32(1) / number) if number != np.float32(0) else np.float32(0)


@jit
def _away(number: np.float32) -> np.int32:
    """Round to the nearest, ties away from zero."""
    size = abs(number)
    whole = np.float32(np.float32(size + _INTEGER) - _INTEGER)
    # A tie that went to the even number below.
    whole = np.float32(whole + np.float32(np.float32(size - whole) == np.float32(0.5)))
    code = np.int32(whole)
    return np.int32(-code) if number < np.float32(0) else code


@jit
def _is_outside(largest: np.float32, scale: np.float32) -> np.uint8:
    """Return 1 where a magnitude or a scale is so large or small that numpy has to do it."""
    is_inside = largest < _LARGE and (largest > _SMALL or largest == np.float32(0))
    return np.uint8(0) if is_inside and not packing.is_infinite(scale) else np.uint8(1)
