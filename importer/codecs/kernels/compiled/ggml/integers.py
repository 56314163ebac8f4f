"""Blocks of integers under one scale, compiled: Q1_0 to Q8_1, Q8_K, TQ1_0 and TQ2_0.

Arguments of all functions:
    blocks: bytes, of shape (blocks, bytes of a block).
    left: 1 for each block with a scale that is not finite.
    values: float32, of shape (runs, values that are computed together).
"""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.ggml.blocks import f16, flag, u32
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns


@jit
def q8(blocks: Array, left: Array, values: Array, packed: int) -> None:
    """Decode Q8_0 or Q8_1, in runs of 32; codes begin at the byte `packed`."""
    length = columns(values, 16, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scale = f16(block, 0)
        _signed_bytes(block[packed:], scale, values[number], length)
        left[number] = flag(scale, scale)


@jit
def q8_k(blocks: Array, left: Array, values: Array) -> None:
    """Decode Q8_K, in runs of 32."""
    length = columns(values, 16, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        bits = u32(block, 0)
        scale = np.uint32(bits).view(np.float32)
        for j in range(8):
            _signed_bytes(block[4 + 32 * j :], scale, values[8 * number + j], length)
        is_finite = np.uint32(bits & np.uint32(0x7F80_0000)) != np.uint32(0x7F80_0000)
        left[number] = np.uint8(0) if is_finite else np.uint8(1)


@jit
def q4_0_to_q5_1(
    blocks: Array, left: Array, values: Array, has_minimum: Flag, has_fifth_bit: Flag
) -> None:
    """Decode Q4_0, Q4_1, Q5_0 or Q5_1, in runs of 16."""
    length = columns(values, 8, 2)
    middle = np.int8(8 if has_fifth_bit is None else 16)
    packed = 2 if has_minimum is None else 4
    for number in range(len(blocks)):
        block = blocks[number]
        scale = f16(block, 0)
        minimum = np.float32(0) if has_minimum is None else f16(block, 2)
        high = np.uint32(0)
        codes = block[packed:]
        if has_fifth_bit is not None:
            high = u32(block, packed)
            codes = block[packed + 4 :]
        for half in range(2):
            run, shift = values[2 * number + half], np.uint8(4 * half)
            bits = np.uint32(high >> np.uint32(16 * half))
            for i in range(length):
                code = np.uint8(np.uint8(codes[i] >> shift) & np.uint8(15))
                if has_fifth_bit is not None:
                    bit = np.uint32(np.uint32(bits >> np.uint32(i)) & np.uint32(1))
                    code = np.uint8(code | np.uint8(np.uint8(bit) << np.uint8(4)))
                if has_minimum is None:
                    run[i] = np.float32(np.float32(np.int8(np.int8(code) - middle)) * scale)
                else:
                    run[i] = np.float32(np.float32(np.float32(code) * scale) + minimum)
        left[number] = flag(scale, minimum)


@jit
def q1_0(blocks: Array, left: Array, values: Array) -> None:
    """Decode Q1_0, in runs of 8."""
    length = columns(values, 4, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scale = f16(block, 0)
        for j in range(16):
            run, bits = values[16 * number + j], np.uint32(block[2 + j])
            for i in range(length):
                bit = np.int32(np.uint32(np.uint32(bits >> np.uint32(i)) & np.uint32(1)))
                code = np.int32(np.int32(bit + bit) - np.int32(1))
                run[i] = np.float32(np.float32(code) * scale)
        left[number] = flag(scale, scale)


@jit
def q2_0(blocks: Array, left: Array, values: Array) -> None:
    """Decode Q2_0, in runs of 4."""
    length = columns(values, 2, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scale = f16(block, 0)
        for j in range(16):
            run, bits = values[16 * number + j], np.uint32(block[2 + j])
            for i in range(length):
                place = np.uint32(np.uint32(i) << np.uint32(1))
                code = np.int32(np.uint32(np.uint32(bits >> place) & np.uint32(3)))
                run[i] = np.float32(np.float32(np.int32(code - np.int32(1))) * scale)
        left[number] = flag(scale, scale)


@jit
def tq1_0(blocks: Array, left: Array, values: Array) -> None:
    """Decode TQ1_0, in runs of 16."""
    length = columns(values, 8, 2)
    for number in range(len(blocks)):
        block, first = blocks[number], 16 * number
        scale = f16(block, 52)
        power = np.uint8(1)
        for digit in range(5):
            _trits(block, power, scale, values[first + 2 * digit], length)
            _trits(block[16:], power, scale, values[first + 2 * digit + 1], length)
            _trits(block[32:], power, scale, values[first + 10 + digit], length)
            power = np.uint8(power * np.uint8(3))
        run, power = values[first + 15], np.uint8(1)
        for digit in range(4):
            _trits(block[48:], power, scale, run[4 * digit :], length // 4)
            power = np.uint8(power * np.uint8(3))
        left[number] = flag(scale, scale)


@jit
def tq2_0(blocks: Array, left: Array, values: Array) -> None:
    """Decode TQ2_0, in runs of 32."""
    length = columns(values, 16, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scale = f16(block, 64)
        for j in range(8):
            run, shift, codes = (
                values[8 * number + j],
                np.uint8(2 * (j % 4)),
                block[j // 4 * 32 :],
            )
            for i in range(length):
                code = np.int8(np.uint8(np.uint8(codes[i] >> shift) & np.uint8(3)))
                run[i] = np.float32(np.float32(np.int8(code - np.int8(1))) * scale)
        left[number] = flag(scale, scale)


@jit
def _signed_bytes(codes: Array, scale: np.float32, run: Array, length: int) -> None:
    for i in range(length):
        run[i] = np.float32(np.float32(np.int8(codes[i])) * scale)


@jit
def _trits(packed: Array, power: np.uint8, scale: np.float32, run: Array, length: int) -> None:
    """Fill a run with one digit of each byte: what three times its fraction has in front."""
    for i in range(length):
        fraction = np.uint16(np.uint8(packed[i] * power))
        digit = np.uint16(np.uint16(fraction * np.uint16(3)) >> np.uint16(8))
        run[i] = np.float32(np.float32(np.int8(np.int8(digit) - np.int8(1))) * scale)
