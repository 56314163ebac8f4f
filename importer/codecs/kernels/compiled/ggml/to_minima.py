"""Values to Q2_K, Q4_K and Q5_K, compiled: `reference/ggml/quantize/super_blocks.py`.

Arguments of all functions:
    groups: float32, of shape (groups, elements of a group).
    spans: the same memory, of shape (blocks, 256).
    rows: the same memory, of shape (rows, columns); a row is a block where all columns count
        alike.
    importance: of each column, if columns differ.
    lanes: scratch, as `found`, `numbers`, `codes`, `flat` and `integers` are: scratch.py.
    blocks: of shape (blocks, bytes of a block).
    left: 1 for each row that numpy has to do.
    is_two_bits: whether it is Q2_K.
    last_code: the largest: 3, 15 or 31.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.ggml import packing, search, tiles
from importer.codecs.kernels.compiled.ggml.scratch import (
    ENERGIES,
    FOUND,
    MINIMA,
    SCALES,
    STARTS,
    STEPS,
    SUMS,
    TOGETHER,
    Scratch,
)
from importer.codecs.kernels.compiled.jit import Array, Flag, jit

_FOUR_BITS: Final = 15
_FIVE_BITS: Final = 31


@jit
def encode(
    groups: Array,
    spans: Array,
    rows: Array,
    importance: Array,
    is_weighted: Flag,
    is_two_bits: Flag,
    last_code: int,
    lanes: Array,
    found: Array,
    numbers: Array,
    codes: Array,
    flat: Array,
    integers: Array,
    blocks: Array,
    left: Array,
) -> None:
    """Quantize blocks."""
    scratch = Scratch(lanes, found, numbers, codes, flat, integers)
    length = groups.shape[1]
    count = spans.shape[1] // length
    packing.find_infinite(rows, left)
    for batch in range((len(blocks) + TOGETHER - 1) // TOGETHER):
        first = TOGETHER * batch
        own = groups[first * count :][: TOGETHER * count]
        own_blocks = blocks[first:][:TOGETHER]
        energies = numbers[ENERGIES][: len(own_blocks)]
        if is_weighted is not None:
            factor = np.float32(2) if is_two_bits is None else np.float32(1)
            tiles.find_energies(spans[first:][:TOGETHER], factor, energies)
        for tile in range((len(own) + TOGETHER - 1) // TOGETHER):
            place, offset = TOGETHER * tile, 256 * first
            tiles.fill(own, place, lanes[0])
            if is_weighted is not None:
                tiles.weigh_by_importance(
                    lanes[0],
                    importance,
                    offset,
                    energies,
                    place,
                    len(own),
                    length,
                    found,
                    lanes[1],
                )
            _search(scratch, length, is_weighted, is_two_bits, last_code)
            tiles.keep(lanes[2], place, codes)
            tiles.keep_line(found[search.SCALE], place, numbers[SCALES])
            tiles.keep_line(found[search.MINIMUM], place, numbers[MINIMA])
            tiles.keep_line(found[search.SUM], place, numbers[SUMS])
            _leave(found, first * count + place, count, blocks, left)
        for part in range(2):
            _round(scratch, part, count, len(own_blocks), is_weighted, is_two_bits)
            _leave(found, first, 1, blocks, left)
        for j in range(len(own_blocks)):
            if _finish(own, scratch, j, count, is_two_bits, last_code, own_blocks[j]):
                packing.leave(left, first + j, len(blocks))


@jit
def _leave(found: Array, first: int, count: int, blocks: Array, left: Array) -> None:
    """Flag rows for the lanes in which numpy has to search, `count` of each block."""
    for lane in range(min(TOGETHER, len(blocks) * count - first)):
        if found[search.IS_LEFT, lane] != np.float32(0):
            packing.leave(left, (first + lane) // count, len(blocks))


@jit
def _search(
    scratch: Scratch, length: int, is_weighted: Flag, is_two_bits: Flag, last_code: int
) -> None:
    """Find scales, minima and codes of the groups in lanes."""
    values, weights, codes = scratch.lanes[0], scratch.lanes[1], scratch.lanes[2]
    last, found = np.float32(last_code), scratch.found
    if is_weighted is not None:
        first, width = np.float32(-0.9), np.float32(0.05)
        search.with_minimum(values, weights, codes, length, last, first, width, 36, True, found)
    elif is_two_bits is not None:
        tiles.weigh_by_size(values, length, None, weights)
        first, width = np.float32(-0.5), np.float32(0.1)
        search.with_minimum(values, weights, codes, length, last, first, width, 15, None, found)
    else:
        tiles.weigh_by_size(values, length, True, weights)
        first, width = np.float32(-0.5), np.float32(0.1)
        steps = 15
        if last_code == _FOUR_BITS:
            first, steps = np.float32(-1), 20
        search.with_minimum(
            values, weights, codes, length, last, first, width, steps, True, found
        )


@jit
def _round(
    scratch: Scratch, part: int, count: int, blocks: int, is_weighted: Flag, is_two_bits: Flag
) -> None:
    """Round the scales of blocks, or where `part` is 1 their minima; flag lanes in `found`."""
    lanes, found, numbers = scratch.lanes, scratch.found, scratch.numbers
    last = np.float32(63) if is_two_bits is None else np.float32(15)
    if is_weighted is not None:
        tiles.spread(numbers[part], count, lanes[0])
        tiles.spread(numbers[SUMS], count, lanes[1])
        search.positive(lanes[0], lanes[1], lanes[2], count, last, found)
        for j in range(blocks):
            numbers[FOUND + part, j] = found[search.SCALE, j]
            for i in range(count):
                scratch.integers[part, j * count + i] = np.uint8(np.int32(lanes[2, i, j]))
    else:
        for j in range(blocks):
            own = numbers[part][j * count :][:count]
            integers, high = scratch.integers[part][j * count :], np.float32(0)
            found[search.IS_LEFT, j] = np.float32(0)
            for i in range(count):
                high = max(high, own[i])
                if not own[i] >= np.float32(0):
                    found[search.IS_LEFT, j] = np.float32(1)
            numbers[FOUND + part, j] = np.float32(high / last)
            divisor = np.float32(last / high) if high > np.float32(0) else np.float32(0)
            for i in range(count):
                code = packing.nearest(np.float32(divisor * own[i]))
                integers[i] = np.uint8(min(max(code, np.int32(0)), np.int32(last)))


@jit
def _finish(
    groups: Array,
    scratch: Scratch,
    number: int,
    count: int,
    is_two_bits: Flag,
    last_code: int,
    block: Array,
) -> bool:
    """Write a block, of sixteen; return whether one of its scales is too large."""
    some, numbers = slice(number * count, number * count + count), scratch.numbers
    place = 0 if is_two_bits is None else 80
    scale = packing.put_f16(block, place, numbers[FOUND, number])
    start = packing.put_f16(block, place + 2, numbers[FOUND + 1, number])
    scales, minima = scratch.integers[0][some], scratch.integers[1][some]
    steps, starts = numbers[STEPS][:count], numbers[STARTS][:count]
    for i in range(count):
        steps[i] = np.float32(scale * np.float32(scales[i]))
        starts[i] = np.float32(start * np.float32(minima[i]))
    packing.recode(groups[some], steps, starts, 0, last_code, scratch.codes[some])
    codes = scratch.flat[256 * number :][:256]
    if is_two_bits is not None:
        packing.put_four_bit_scales(scales, minima, block)
        packing.put_pairs(codes, 0, block[16:])
        packing.put_pairs(codes[128:], 0, block[48:])
    else:
        packing.put_six_bit_scales(scales, minima, block[4:])
        packed = block[16:]
        if last_code == _FIVE_BITS:
            packing.put_bits(codes, 4, packed)
            packed = block[48:]
        for k in range(4):
            packing.put_nibbles(codes[64 * k :], 32, packed[32 * k :])
    return packing.is_infinite(scale) or packing.is_infinite(start)
