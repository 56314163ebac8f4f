"""Blocks whose codes are points of a grid: IQ1_S to IQ3_S."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml import grids
from importer.codecs.reference.ggml.blocks import (
    Blocks,
    Integers,
    Unpacked,
    adjacent,
    rows,
    widened,
)

_SHIFTS_OF_SIGNS: Final = np.array([0, 7, 14, 21], np.uint32)
_SHIFT_OF_SCALE: Final = np.uint32(28)
_DELTA: Final = np.float32(0.125)
"""By which the points of IQ1_S and IQ1_M are moved up or down."""


def unpack_iq1_s(blocks: Blocks) -> Unpacked:
    """Eight groups of 32; the points of a group are moved together."""
    qh = blocks["qh"]
    high = (qh[:, :, None] >> np.arange(0, 12, 3, dtype=np.uint16)) & np.uint16(7)
    points = grids.iq1()[blocks["qs"] | rows(high, 32) << np.uint16(8)]
    deltas = np.where(qh & np.uint16(0x8000), -_DELTA, _DELTA)
    codes = rows(points, 8, 32).astype(np.float32) + deltas[:, :, None]
    scales = (qh >> np.uint16(12)) & np.uint16(7)
    return Unpacked(rows(codes, 256), widened(blocks["d"]) * _odd(scales))


def unpack_iq1_m(blocks: Blocks) -> Unpacked:
    """Sixteen groups of 16; each point is moved by itself.

    The scale of the block is in the highest four bits of the four words of scales.
    """
    high = adjacent(blocks["qh"], 4).astype(np.uint16)
    points = grids.iq1()[blocks["qs"] | (high & np.uint16(7)) << np.uint16(8)]
    deltas = np.where(high & np.uint16(8), -_DELTA, _DELTA)
    codes = points.astype(np.float32) + deltas[:, :, None]
    words = blocks["scales"]
    quarters = words >> np.uint16(12) << np.arange(0, 16, 4, dtype=np.uint16)
    d = widened(np.bitwise_or.reduce(quarters, axis=1).astype(np.uint16).view(np.float16))
    scales = (words[:, :, None] >> np.arange(0, 12, 3, dtype=np.uint16)) & np.uint16(7)
    return Unpacked(rows(codes, 256), d * _odd(rows(scales, 16)))


def unpack_iq2_xxs(blocks: Blocks) -> Unpacked:
    """Eight groups of 32."""
    signs, scales = _signs_and_scales(blocks["qs"]["rest"])
    codes = _signed(grids.iq2_xxs()[blocks["qs"]["points"]], signs)
    return Unpacked(codes, _above_half(blocks, scales) * np.float32(0.25))


def unpack_iq2_xs(blocks: Blocks) -> Unpacked:
    """Sixteen groups of 16."""
    qs = blocks["qs"]
    points = grids.iq2_xs()[qs & np.uint16(511)]
    codes = _signed(points, _even_signs(qs >> np.uint16(9)))
    scales = _above_half(blocks, adjacent(blocks["scales"], 4))
    return Unpacked(codes, scales * np.float32(0.25))


def unpack_iq2_s(blocks: Blocks) -> Unpacked:
    """Sixteen groups of 16, and a sign for each value."""
    high = adjacent(blocks["qh"], 2).astype(np.uint16)
    points = grids.iq2_s()[blocks["qs"] | high << np.uint16(8)]
    scales = _above_half(blocks, adjacent(blocks["scales"], 4))
    return Unpacked(_signed(points, blocks["signs"]), scales * np.float32(0.25))


def unpack_iq3_xxs(blocks: Blocks) -> Unpacked:
    """Eight groups of 32, of points of four numbers."""
    signs, scales = _signs_and_scales(blocks["rest"])
    codes = _signed(grids.iq3_xxs()[blocks["qs"]], signs)
    return Unpacked(codes, _above_half(blocks, scales) * np.float32(0.5))


def unpack_iq3_s(blocks: Blocks) -> Unpacked:
    """Eight groups of 32, of points of four numbers, and a sign for each value."""
    high = adjacent(blocks["qh"], 1).astype(np.uint16)
    points = grids.iq3_s()[blocks["qs"] | high << np.uint16(8)]
    scales = _odd(adjacent(blocks["scales"], 4))
    return Unpacked(_signed(points, blocks["signs"]), widened(blocks["d"]) * scales)


def _signs_and_scales(words: Integers) -> tuple[Integers, Integers]:
    """Return the signs of 32 values that are in 28 bits of a word, and the scale above them."""
    packed = (words[:, :, None] >> _SHIFTS_OF_SIGNS) & np.uint32(127)
    return _even_signs(rows(packed, 32)), words >> _SHIFT_OF_SCALE


def _even_signs(packed: Integers) -> Integers:
    """Return the signs of eight values in a byte: the eighth makes the number of them even."""
    odd = np.bitwise_count(packed) & np.uint8(1)
    return packed.astype(np.uint8) | odd << np.uint8(7)


def _signed(points: Integers, signs: Integers) -> npt.NDArray[np.int8]:
    """Give numbers of points their signs: a set bit is a minus."""
    minus = adjacent(signs, 1).astype(np.int8)
    factors: npt.NDArray[np.int8] = np.int8(1) - np.int8(2) * minus
    return rows(points, 256) * factors


def _above_half(blocks: Blocks, scales: Integers) -> Floats:
    return widened(blocks["d"]) * (scales.astype(np.float32) + np.float32(0.5))


def _odd(scales: Integers) -> Floats:
    return (np.uint8(2) * scales.astype(np.uint8) + np.uint8(1)).astype(np.float32)
