"""Blocks whose codes are points of a grid, compiled: IQ1_S to IQ3_S.

Arguments of all functions:
    blocks: bytes, of shape (blocks, bytes of a block).
    left: 1 for each block with a scale that is not finite.
    values: float32, of shape (runs, numbers of a point).
    points: int8, of shape (points, numbers of a point).
"""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import widen
from importer.codecs.kernels.compiled.ggml.blocks import f16, flag, nibble, u16, u32
from importer.codecs.kernels.compiled.jit import Array, jit


@jit
def iq1_s(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ1_S."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(8):
            word = u16(block, 34 + 2 * j)
            scale = np.uint16(np.uint16(word >> np.uint16(12)) & np.uint16(7))
            step = _odd(scales, scale)
            is_down = np.uint16(word >> np.uint16(15))
            for k in range(4):
                high = np.uint16(np.uint16(word >> np.uint16(3 * k)) & np.uint16(7))
                place = _place(block[2 + 4 * j + k], high)
                _moved(points[place], is_down, step, values[32 * number + 4 * j + k])
        left[number] = flag(scales, scales)


@jit
def iq1_m(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ1_M."""
    for number in range(len(blocks)):
        block = blocks[number]
        bits = np.uint16(0)
        for i in range(4):
            quarter = np.uint16(u16(block, 48 + 2 * i) >> np.uint16(12))
            bits = np.uint16(bits | np.uint16(quarter << np.uint16(4 * i)))
        scales = widen(bits, True, None)
        for j in range(16):
            word = np.uint16(u16(block, 48 + j // 4 * 2) >> np.uint16(3 * (j % 4)))
            step = _odd(scales, np.uint16(word & np.uint16(7)))
            for k in range(2):
                high = np.uint16(nibble(block, 32, 2 * j + k))
                place = _place(block[2 * j + k], np.uint16(high & np.uint16(7)))
                is_down = np.uint16(high >> np.uint16(3))
                _moved(points[place], is_down, step, values[32 * number + 2 * j + k])
        left[number] = flag(scales, scales)


@jit
def iq2_xxs(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ2_XXS."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(8):
            rest = u32(block, 6 + 8 * j)
            scale = np.uint8(np.uint32(rest >> np.uint32(28)))
            step = np.float32(_above_half(scales, scale) * np.float32(0.25))
            for k in range(4):
                signs = _even_signs(np.uint32(rest >> np.uint32(7 * k)))
                point = points[np.uint16(block[2 + 8 * j + k])]
                _signed(point, signs, step, values[32 * number + 4 * j + k])
        left[number] = flag(scales, scales)


@jit
def iq2_xs(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ2_XS."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(32):
            word = u16(block, 2 + 2 * j)
            scale = nibble(block, 66, j // 2)
            step = np.float32(_above_half(scales, scale) * np.float32(0.25))
            signs = _even_signs(np.uint32(np.uint16(word >> np.uint16(9))))
            point = points[np.uint16(word & np.uint16(511))]
            _signed(point, signs, step, values[32 * number + j])
        left[number] = flag(scales, scales)


@jit
def iq2_s(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ2_S."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(32):
            step = _above_half(scales, nibble(block, 74, j // 2))
            step = np.float32(step * np.float32(0.25))
            high = np.uint16(np.uint8(block[66 + j // 4] >> np.uint8(2 * (j % 4))))
            place = _place(block[2 + j], np.uint16(high & np.uint16(3)))
            signs = np.uint32(block[34 + j])
            _signed(points[place], signs, step, values[32 * number + j])
        left[number] = flag(scales, scales)


@jit
def iq3_xxs(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ3_XXS."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(8):
            rest = u32(block, 66 + 4 * j)
            scale = np.uint8(np.uint32(rest >> np.uint32(28)))
            step = np.float32(_above_half(scales, scale) * np.float32(0.5))
            for k in range(4):
                signs = _even_signs(np.uint32(rest >> np.uint32(7 * k)))
                for half in range(2):
                    place = 8 * j + 2 * k + half
                    point = points[np.uint16(block[2 + place])]
                    half_signs = np.uint32(signs >> np.uint32(4 * half))
                    _signed(point, half_signs, step, values[64 * number + place])
        left[number] = flag(scales, scales)


@jit
def iq3_s(blocks: Array, left: Array, points: Array, values: Array) -> None:
    """Decode IQ3_S."""
    for number in range(len(blocks)):
        block = blocks[number]
        scales = f16(block, 0)
        for j in range(64):
            step = _odd(scales, np.uint16(nibble(block, 106, j // 8)))
            high = np.uint16(np.uint8(block[66 + j // 8] >> np.uint8(j % 8)))
            place = _place(block[2 + j], np.uint16(high & np.uint16(1)))
            signs = np.uint32(np.uint8(block[74 + j // 2] >> np.uint8(4 * (j % 2))))
            _signed(points[place], signs, step, values[64 * number + j])
        left[number] = flag(scales, scales)


@jit
def _place(low: np.uint8, high: np.uint16) -> np.uint16:
    return np.uint16(np.uint16(low) | np.uint16(high << np.uint16(8)))


@jit
def _odd(scales: np.float32, scale: np.uint16) -> np.float32:
    odd = np.uint16(np.uint16(scale + scale) + np.uint16(1))
    return np.float32(scales * np.float32(odd))


@jit
def _above_half(scales: np.float32, scale: np.uint8) -> np.float32:
    return np.float32(scales * np.float32(np.float32(scale) + np.float32(0.5)))


@jit
def _even_signs(packed: np.uint32) -> np.uint32:
    """Return seven signs, and an eighth that makes the number of minuses even."""
    signs = np.uint32(packed & np.uint32(127))
    odd = np.uint32(signs ^ np.uint32(signs >> np.uint32(4)))
    odd = np.uint32(odd ^ np.uint32(odd >> np.uint32(2)))
    odd = np.uint32(np.uint32(odd ^ np.uint32(odd >> np.uint32(1))) & np.uint32(1))
    return np.uint32(signs | np.uint32(odd << np.uint32(7)))


@jit
def _signed(point: Array, signs: np.uint32, step: np.float32, run: Array) -> None:
    bits = np.float32(step).view(np.uint32)
    for i in range(len(point)):
        minus = np.uint32(np.uint32(signs >> np.uint32(i)) << np.uint32(31))
        signed = np.uint32(bits ^ minus).view(np.float32)
        run[i] = np.float32(np.float32(point[i]) * signed)


@jit
def _moved(point: Array, is_down: np.uint16, step: np.float32, run: Array) -> None:
    delta = np.float32(0.125) if is_down == np.uint16(0) else np.float32(-0.125)
    for i in range(len(point)):
        run[i] = np.float32(np.float32(np.float32(point[i]) + delta) * step)
