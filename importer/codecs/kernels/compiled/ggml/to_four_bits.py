"""Values to codes of four bits that are places in a table, compiled.

As `reference/ggml/quantize/four_bits.py`. Arguments of all functions:
    values: float32, of shape (groups, 32).
    blocks: of shape (blocks, bytes of a block).
    left: 1 for each row that numpy has to do.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.ggml import packing, search, symmetric, tiles
from importer.codecs.kernels.compiled.ggml.scratch import TOGETHER
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns

_GROUPS: Final = 8
"""Of a block of IQ4_XS."""
_ONE: Final = np.float32(1)
_LOWEST: Final = np.uint32(4 << 23)
"""Bits of the first magnitude under whose power of two all quotients are normal."""
_EXPONENT_OF_FOUR: Final = np.uint32(2)


@jit
def iq4(
    values: Array,
    spans: Array,
    rows: Array,
    importance: Array,
    is_weighted: Flag,
    is_super: Flag,
    numbers_of_codes: Array,
    middles: Array,
    lanes: Array,
    found: Array,
    numbers: Array,
    codes: Array,
    blocks: Array,
    left: Array,
) -> None:
    """Quantize to IQ4_NL or, where `is_super`, to IQ4_XS.

    Args:
        spans: the memory of `values`, of shape (blocks, elements of a block).
        rows: the same of shape (rows, columns).
        numbers_of_codes: what codes stand for, and `middles` between two of them.
        lanes: scratch, as `found`, `numbers` and `codes`: scratch.py.
    """
    packing.find_infinite(rows, left)
    length = columns(values, 16, 2)
    scales = numbers[0][: 2 * _GROUPS]
    # A whole block of IQ4_XS in eight lanes: sixteen are two blocks.
    for batch in range((len(values) + TOGETHER - 1) // TOGETHER):
        first = TOGETHER * batch
        own = values[first:][:TOGETHER]
        count = TOGETHER if is_super is None else TOGETHER // _GROUPS
        own_blocks = blocks[count * batch :][:count]
        tiles.fill(own, 0, lanes[0])
        if is_weighted is None:
            tiles.weigh_by_square(lanes[0], 32, lanes[1])
        else:
            energies = numbers[1][: len(own_blocks)]
            tiles.find_energies(spans[count * batch :][:count], np.float32(2), energies)
            offset = 32 * first % importance.size
            tiles.weigh_by_importance(
                lanes[0], importance, offset, energies, 0, len(own), 32, found, lanes[1]
            )
        symmetric.uneven(lanes[0], lanes[1], 32, numbers_of_codes, middles, found)
        tiles.keep_line(found[search.SCALE], 0, scales)
        for j in range(len(own_blocks)):
            block = own_blocks[j]
            if is_super is None:
                scale = packing.put_f16(block, 0, scales[j])
                _find_codes(own[j], length, _reciprocal(scales[j]), middles, codes[0])
                packing.put_nibbles(codes[0], 16, block[2:])
            else:
                scale = _put_super(
                    own[_GROUPS * j :], scales[_GROUPS * j :], length, middles, codes[0], block
                )
            if packing.is_infinite(scale):
                packing.leave(left, count * batch + j, len(blocks))


@jit
def _put_super(
    own: Array, scales: Array, length: int, middles: Array, codes: Array, block: Array
) -> np.float32:
    """Write a block of IQ4_XS, and return its scale as it is read from there."""
    edge = np.float32(0)
    for i in range(_GROUPS):
        edge = scales[i] if abs(scales[i]) > abs(edge) else edge
    step = np.float32(np.float32(-edge) / np.float32(32))
    divisor = _reciprocal(step)
    high = np.uint16(0)
    for i in range(_GROUPS // 2):
        block[4 + i] = np.uint8(0)
    for i in range(_GROUPS):
        number = packing.nearest(np.float32(divisor * scales[i]))
        number = min(max(number, np.int32(-32)), np.int32(31))
        own_divisor = _reciprocal(np.float32(step * np.float32(number)))
        _find_codes(own[i], length, own_divisor, middles, codes)
        packing.put_nibbles(codes, 16, block[8 + 16 * i :])
        stored = np.uint16(np.int32(number + np.int32(32)))
        low = np.uint8(np.uint8(stored & np.uint16(15)) << np.uint8(i % 2 * 4))
        block[4 + i // 2] = np.uint8(block[4 + i // 2] | low)
        high = np.uint16(
            high | np.uint16(np.uint16(stored >> np.uint16(4)) << np.uint16(2 * i))
        )
    block[2] = np.uint8(high)
    block[3] = np.uint8(high >> np.uint16(8))
    return packing.put_f16(block, 0, step)


@jit
def _find_codes(
    own: Array, length: int, divisor: np.float32, middles: Array, codes: Array
) -> None:
    for i in range(length):
        place, code = np.float32(divisor * own[i]), np.uint8(0)
        for k in range(15):
            code = np.uint8(code + np.uint8(not place < middles[k]))
        codes[i] = code


@jit
def _reciprocal(number: np.float32) -> np.float32:
    return np.float32(_ONE / number) if number != np.float32(0) else np.float32(0)


@jit
def mxfp4(values: Array, rounded_up: Array, codes: Array, blocks: Array, left: Array) -> None:
    """Quantize to MXFP4.

    Args:
        rounded_up: for each exponent of float32 the digits from which on its logarithm is
            that of the next power of two; numpy takes those below 2 ** -124.
        codes: scratch for those of a block.
    """
    length = columns(values, 16, 2)
    for number in range(len(blocks)):
        own, block = values[number], blocks[number]
        largest = np.uint32(0)
        for i in range(length):
            bits = np.uint32(np.float32(own[i]).view(np.uint32) & np.uint32(0x7FFF_FFFF))
            largest = max(largest, bits)
        exponent = np.uint32(largest >> np.uint32(23))
        digits = np.uint32(largest & np.uint32(0x7F_FFFF))
        if digits >= rounded_up[exponent]:
            exponent = np.uint32(exponent + np.uint32(1))
        is_zero = largest == np.uint32(0)
        is_inside = is_zero or (largest >= _LOWEST and exponent < np.uint32(255))
        left[number] = np.uint8(0) if is_inside else np.uint8(1)
        byte = np.uint32(0) if is_zero else np.uint32(exponent - _EXPONENT_OF_FOUR)
        block[0] = np.uint8(byte)
        # Half of the power of two, as codes stand for twice their numbers.
        bits = np.uint32(np.uint32(max(byte, np.uint32(1)) - np.uint32(1)) << np.uint32(23))
        step = np.uint32(bits).view(np.float32)
        for i in range(length):
            codes[i] = _e2m1(own[i], step)
        packing.put_nibbles(codes, 16, block[1:])


@jit
def _e2m1(value: np.float32, step: np.float32) -> np.uint8:
    """Return the code of the nearest number; of two that are equally near, that below."""
    size, code = abs(value), np.uint8(0)
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(0.5) * step)))
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(1.5) * step)))
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(2.5) * step)))
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(3.5) * step)))
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(5) * step)))
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(7) * step)))
    code = np.uint8(code + np.uint8(size > np.float32(np.float32(10) * step)))
    minus = np.uint8(8) if value < np.float32(0) and code > np.uint8(0) else np.uint8(0)
    return np.uint8(code | minus)
