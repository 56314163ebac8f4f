"""Blocks of 256 whose groups have small integers for scales, compiled: Q2_K to Q6_K.

Arguments of all functions:
    blocks: bytes, of shape (blocks, bytes of a block).
    left: 1 for each block with a scale that is not finite.
    values: float32, of shape (runs, values that are computed together).
"""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.ggml.blocks import f16, flag
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns


@jit
def q2_k(blocks: Array, left: Array, values: Array) -> None:
    """Decode Q2_K, in runs of 16."""
    length = columns(values, 8, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scales, least = f16(block, 80), f16(block, 82)
        for group in range(16):
            byte = block[group]
            step = np.float32(scales * np.float32(np.uint8(byte & np.uint8(15))))
            start = np.float32(least * np.float32(np.uint8(byte >> np.uint8(4))))
            run, shift = values[16 * number + group], np.uint8(group % 8 // 2 * 2)
            codes = block[16 + 32 * (group // 8) + 16 * (group % 2) :]
            for i in range(length):
                code = np.uint8(np.uint8(codes[i] >> shift) & np.uint8(3))
                run[i] = np.float32(np.float32(np.float32(code) * step) - start)
        left[number] = flag(scales, least)


@jit
def q3_k(blocks: Array, left: Array, values: Array) -> None:
    """Decode Q3_K, in runs of 16."""
    length = columns(values, 8, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 108)
        for group in range(16):
            low = np.uint8(block[96 + group % 8] >> np.uint8(group // 8 * 4))
            high = np.uint8(block[104 + group % 4] >> np.uint8(group // 4 * 2))
            high = np.uint8(np.uint8(high & np.uint8(3)) << np.uint8(4))
            scale = np.int8(np.int8(np.uint8(low & np.uint8(15)) | high) - np.int8(32))
            step = np.float32(scales * np.float32(scale))
            run, shift = values[16 * number + group], np.uint8(group % 8 // 2 * 2)
            codes = block[32 + 32 * (group // 8) + 16 * (group % 2) :]
            third, place = block[16 * (group % 2) :], np.uint8(group // 2)
            for i in range(length):
                code = np.uint8(np.uint8(codes[i] >> shift) & np.uint8(3))
                bit = np.uint8(np.uint8(third[i] >> place) & np.uint8(1))
                signed = np.int8(np.int8(code | np.uint8(bit << np.uint8(2))) - np.int8(4))
                run[i] = np.float32(np.float32(signed) * step)
        left[number] = flag(scales, scales)


@jit
def q4_k_to_q5_k(blocks: Array, left: Array, values: Array, has_fifth_bit: Flag) -> None:
    """Decode Q4_K or Q5_K, in runs of 32."""
    length = columns(values, 16, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scales, least = f16(block, 0), f16(block, 2)
        packed = block[16:] if has_fifth_bit is None else block[48:]
        for j in range(8):
            if j < 4:  # noqa: PLR2004 - the others are in two parts
                scale = np.uint8(block[4 + j] & np.uint8(63))
                minimum = np.uint8(block[8 + j] & np.uint8(63))
            else:
                low, high = block[8 + j], np.uint8(block[j] >> np.uint8(6))
                scale = np.uint8(np.uint8(low & np.uint8(15)) | np.uint8(high << np.uint8(4)))
                high = np.uint8(block[4 + j] >> np.uint8(6))
                minimum = np.uint8(np.uint8(low >> np.uint8(4)) | np.uint8(high << np.uint8(4)))
            step = np.float32(scales * np.float32(scale))
            start = np.float32(least * np.float32(minimum))
            run, codes, fifth = values[8 * number + j], packed[32 * (j // 2) :], block[16:]
            shift, place = np.uint8(4 * (j % 2)), np.uint8(j)
            for i in range(length):
                code = np.uint8(np.uint8(codes[i] >> shift) & np.uint8(15))
                if has_fifth_bit is not None:
                    bit = np.uint8(np.uint8(fifth[i] >> place) & np.uint8(1))
                    code = np.uint8(code | np.uint8(bit << np.uint8(4)))
                run[i] = np.float32(np.float32(np.float32(code) * step) - start)
        left[number] = flag(scales, least)


@jit
def q6_k(blocks: Array, left: Array, values: Array) -> None:
    """Decode Q6_K, in runs of 16."""
    length = columns(values, 8, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 208)
        for group in range(16):
            half, quarter, part = group // 8, group % 8 // 2, group % 2
            step = np.float32(scales * np.float32(np.int8(block[192 + group])))
            run = values[16 * number + group]
            codes = block[64 * half + 32 * (quarter % 2) + 16 * part :]
            upper = block[128 + 32 * half + 16 * part :]
            shift, place = np.uint8(quarter // 2 * 4), np.uint8(2 * quarter)
            for i in range(length):
                code = np.uint8(np.uint8(codes[i] >> shift) & np.uint8(15))
                bits = np.uint8(np.uint8(upper[i] >> place) & np.uint8(3))
                signed = np.int8(np.int8(code | np.uint8(bits << np.uint8(4))) - np.int8(32))
                run[i] = np.float32(np.float32(signed) * step)
        left[number] = flag(scales, scales)
