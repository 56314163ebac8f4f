"""Blocks whose codes are places in a table, compiled: IQ4_NL, IQ4_XS, MXFP4 and NVFP4.

Arguments of all functions:
    blocks: bytes, of shape (blocks, bytes of a block).
    left: 1 for each block with a scale that is not finite.
    values: float32, of shape (runs, values that are computed together).
    table: float32, of the sixteen codes.
"""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import e4m3_to_f32
from importer.codecs.kernels.compiled.ggml.blocks import f16, flag
from importer.codecs.kernels.compiled.jit import Array, jit
from importer.codecs.kernels.compiled.lanes import columns


@jit
def iq4_nl(blocks: Array, left: Array, table: Array, values: Array) -> None:
    """Decode IQ4_NL, in runs of 16."""
    for number in range(len(blocks)):
        block = blocks[number]
        scale = f16(block, 0)
        _look_up(block[2:], scale, table, values[2 * number :])
        left[number] = flag(scale, scale)


@jit
def iq4_xs(blocks: Array, left: Array, table: Array, values: Array) -> None:
    """Decode IQ4_XS, in runs of 16."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(8):
            low = np.uint8(block[4 + j // 2] >> np.uint8(4 * (j % 2)))
            high = np.uint8(block[2 + j // 4] >> np.uint8(2 * (j % 4)))
            high = np.uint8(np.uint8(high & np.uint8(3)) << np.uint8(4))
            scale = np.int8(np.int8(np.uint8(low & np.uint8(15)) | high) - np.int8(32))
            step = np.float32(scales * np.float32(scale))
            _look_up(block[8 + 16 * j :], step, table, values[16 * number + 2 * j :])
        left[number] = flag(scales, scales)


@jit
def mxfp4(blocks: Array, left: Array, table: Array, values: Array) -> None:
    """Decode MXFP4, in runs of 16; every scale is finite."""
    for number in range(len(blocks)):
        block = blocks[number]
        # Half the power of two: the two smallest are subnormal.
        exponent = np.uint32(block[0])
        normal = np.uint32(np.uint32(exponent - np.uint32(1)) << np.uint32(23))
        small = np.uint32(np.uint32(0x0020_0000) << np.uint32(exponent & np.uint32(1)))
        bits = normal if exponent > np.uint32(1) else small
        scale = np.uint32(bits).view(np.float32)
        _look_up(block[1:], scale, table, values[2 * number :])
        left[number] = np.uint8(0)


@jit
def nvfp4(blocks: Array, left: Array, table: Array, values: Array) -> None:
    """Decode NVFP4, in runs of 8; every scale is finite."""
    for number in range(len(blocks)):
        block = blocks[number]
        for j in range(4):
            byte = np.uint8(block[j] & np.uint8(0x7F))
            scale = np.float32(e4m3_to_f32(byte) * np.float32(0.5))
            scale = np.float32(0) if block[j] == np.uint8(0x7F) else scale
            _look_up(block[4 + 8 * j :], scale, table, values[8 * number + 2 * j :])
        left[number] = np.uint8(0)


@jit
def _look_up(packed: Array, scale: np.float32, table: Array, values: Array) -> None:
    """Fill a run with what the low halves of bytes stand for, and the next with the high."""
    length = columns(values, 8, 2)
    low, high = values[0], values[1]
    for i in range(length):
        low[i] = np.float32(table[np.uint8(packed[i] & np.uint8(15))] * scale)
        high[i] = np.float32(table[np.uint8(packed[i] >> np.uint8(4))] * scale)
