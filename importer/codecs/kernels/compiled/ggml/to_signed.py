"""Values to Q3_K and Q6_K, compiled: `reference/ggml/quantize/super_blocks.py`.

Arguments of all functions:
    groups: float32, of shape (groups, elements of a group).
    spans: the same memory, of shape (blocks, 256).
    rows: the same memory, of shape (rows, columns); a row is a block where all columns count
        alike.
    importance: of each column, if columns differ.
    lanes: scratch, as `found`, `numbers`, `codes`, `flat` and `integers` are: scratch.py.
    blocks: of shape (blocks, bytes of a block).
    left: 1 for each row that numpy has to do.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.ggml import packing, search, symmetric, tiles
from importer.codecs.kernels.compiled.ggml.scratch import (
    ENERGIES,
    FOUND,
    SCALES,
    STARTS,
    STEPS,
    SUMS,
    TOGETHER,
    Scratch,
)
from importer.codecs.kernels.compiled.jit import Array, Flag, jit

_SMALLEST: Final = np.float32(1e-15)


@jit
def q6_k(
    groups: Array,
    rows: Array,
    importance: Array,
    is_weighted: Flag,
    lanes: Array,
    found: Array,
    numbers: Array,
    codes: Array,
    flat: Array,
    blocks: Array,
    left: Array,
) -> None:
    """Quantize to Q6_K."""
    packing.find_infinite(rows, left)
    scales, steps, starts = numbers[SCALES][:16], numbers[STEPS][:16], numbers[STARTS][:16]
    for i in range(16):
        starts[i] = np.float32(0)
    for number in range(len(blocks)):
        own, block = groups[16 * number :][:16], blocks[number]
        tiles.fill(own, 0, lanes[0])
        if is_weighted is None:
            tiles.weigh_by_square(lanes[0], 16, lanes[1])
        else:
            tiles.take_importance(importance, 256 * number, 16, lanes[1])
        symmetric.symmetric(lanes[0], lanes[1], lanes[2], 16, np.float32(32), found)
        tiles.keep(lanes[2], 0, codes)
        tiles.keep_line(found[search.SCALE], 0, scales)
        edge = _outermost(scales)
        if abs(edge) < _SMALLEST:
            for i in range(block.size):
                block[i] = np.uint8(0)
        else:
            divisor = np.float32(np.float32(-128) / edge)
            scale = packing.put_f16(block, 208, np.float32(np.float32(1) / divisor))
            if packing.is_infinite(scale):
                packing.leave(left, number, len(blocks))
            for i in range(16):
                code = packing.nearest(np.float32(divisor * scales[i]))
                code = min(code, np.int32(127))
                block[192 + i] = np.uint8(code)
                steps[i] = np.float32(scale * np.float32(np.int8(code)))
            packing.recode(own, steps, starts, -32, 31, codes[:16])
            for half in range(2):
                some = flat[128 * half :][:128]
                packing.put_nibbles(some, 64, block[64 * half :])
                packing.put_pairs(some, 4, block[128 + 32 * half :])


@jit
def q3_k(
    groups: Array,
    spans: Array,
    rows: Array,
    importance: Array,
    is_weighted: Flag,
    lanes: Array,
    found: Array,
    numbers: Array,
    codes: Array,
    flat: Array,
    integers: Array,
    blocks: Array,
    left: Array,
) -> None:
    """Quantize to Q3_K."""
    scratch = Scratch(lanes, found, numbers, codes, flat, integers)
    packing.find_infinite(rows, left)
    for i in range(16):
        numbers[STARTS, i] = np.float32(0)
    for batch in range((len(blocks) + TOGETHER - 1) // TOGETHER):
        first = TOGETHER * batch
        own = groups[16 * first :][: 16 * TOGETHER]
        own_blocks = blocks[first:][:TOGETHER]
        energies = numbers[ENERGIES][: len(own_blocks)]
        if is_weighted is not None:
            tiles.find_energies(spans[first:][:TOGETHER], np.float32(2), energies)
        for j in range(len(own_blocks)):
            tiles.fill(own, 16 * j, lanes[0])
            if is_weighted is not None:
                tiles.weigh_by_importance(
                    lanes[0],
                    importance,
                    256 * first,
                    energies,
                    16 * j,
                    len(own),
                    16,
                    found,
                    lanes[1],
                )
                tiles.sum_up(lanes[1], 16, found)
                tiles.keep_line(found[search.SUM], 16 * j, numbers[SUMS])
                symmetric.symmetric(lanes[0], lanes[1], lanes[2], 16, np.float32(4), found)
            else:
                symmetric.descended(lanes[0], lanes[2], 16, np.float32(4), found)
            tiles.keep(lanes[2], 16 * j, codes)
            tiles.keep_line(found[search.SCALE], 16 * j, numbers[SCALES])
        _round(scratch, is_weighted)
        for j in range(len(own_blocks)):
            if _finish(own, scratch, j, own_blocks[j]):
                packing.leave(left, first + j, len(blocks))


@jit
def _round(scratch: Scratch, is_weighted: Flag) -> None:
    """Round the scales of sixteen blocks to integers from 0 to 63."""
    lanes, found, numbers = scratch.lanes, scratch.found, scratch.numbers
    integers = scratch.integers[0]
    if is_weighted is not None:
        tiles.spread(numbers[SCALES], 16, lanes[0])
        tiles.spread(numbers[SUMS], 16, lanes[1])
        symmetric.symmetric(lanes[0], lanes[1], lanes[2], 16, np.float32(32), found)
        tiles.keep_line(found[search.SCALE], 0, numbers[FOUND][:TOGETHER])
        for j in range(TOGETHER):
            for i in range(16):
                integers[16 * j + i] = np.uint8(np.int32(lanes[2, i, j]))
    else:
        for j in range(TOGETHER):
            scales = numbers[SCALES][16 * j :][:16]
            edge = _outermost(scales)
            divisor = np.float32(np.float32(-32) / edge)
            is_zero = edge == np.float32(0)
            step = np.float32(np.float32(1) / divisor)
            numbers[FOUND, j] = np.float32(0) if is_zero else step
            for i in range(16):
                code = packing.nearest(np.float32(divisor * scales[i]))
                code = np.int32(min(max(code, np.int32(-32)), np.int32(31)) + np.int32(32))
                integers[16 * j + i] = np.uint8(0) if is_zero else np.uint8(code)


@jit
def _finish(groups: Array, scratch: Scratch, number: int, block: Array) -> bool:
    """Write a block of Q3_K, of sixteen; return whether its scale is too large."""
    some, numbers = slice(16 * number, 16 * number + 16), scratch.numbers
    steps, starts = numbers[STEPS][:16], numbers[STARTS][:16]
    scale, scales = (
        packing.put_f16(block, 108, numbers[FOUND, number]),
        scratch.integers[0][some],
    )
    for i in range(16):
        code = np.int32(np.int32(scales[i]) - np.int32(32))
        steps[i] = np.float32(scale * np.float32(code))
    packing.recode(groups[some], steps, starts, -4, 3, scratch.codes[some])
    codes = scratch.flat[256 * number :][:256]
    packing.put_bits(codes, 2, block)
    packing.put_pairs(codes, 0, block[32:])
    packing.put_pairs(codes[128:], 0, block[64:])
    packing.put_signed_scales(scales, block[96:])
    return packing.is_infinite(scale)


@jit
def _outermost(numbers: Array) -> np.float32:
    """Return the number of the largest magnitude, the first of several."""
    edge = np.float32(0)
    for i in range(numbers.size):
        edge = numbers[i] if abs(numbers[i]) > abs(edge) else edge
    return edge
