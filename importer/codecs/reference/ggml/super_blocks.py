"""Blocks of 256 whose groups have small integers for scales: Q2_K to Q6_K ("k-quants")."""

from __future__ import annotations

import numpy as np

from importer.codecs.reference.ggml.blocks import (
    Blocks,
    Integers,
    Unpacked,
    rows,
    split,
    widened,
)


def unpack_q2_k(blocks: Blocks) -> Unpacked:
    """Groups of 16, scales and minima of 4 bits."""
    scales, minima = blocks["scales"] & np.uint8(15), blocks["scales"] >> np.uint8(4)
    return _with_minima(_two_bits(blocks), scales, minima, blocks)


def unpack_q3_k(blocks: Blocks) -> Unpacked:
    """Groups of 16, signed scales of 6 bits; codes 0 to 7 stand for -4 to 3."""
    codes = _two_bits(blocks) | split(blocks["hmask"], 1) << np.uint8(2)
    low, high = split(blocks["scales"][:, :8], 4), split(blocks["scales"][:, 8:], 2)
    scales = (low | high << np.uint8(4)).astype(np.int8) - np.int8(32)
    return Unpacked(codes.astype(np.int8) - np.int8(4), widened(blocks["d"]) * scales)


def unpack_q4_k(blocks: Blocks) -> Unpacked:
    """Groups of 32, scales and minima of 6 bits."""
    return _with_minima(_four_bits(blocks), *_six_bits(blocks["scales"]), blocks)


def unpack_q5_k(blocks: Blocks) -> Unpacked:
    """As Q4_K, with a fifth bit."""
    codes = _four_bits(blocks) | split(blocks["qh"], 1) << np.uint8(4)
    return _with_minima(codes, *_six_bits(blocks["scales"]), blocks)


def unpack_q6_k(blocks: Blocks) -> Unpacked:
    """Groups of 16, signed scales of 8 bits; codes 0 to 63 stand for -32 to 31."""
    low, high = split(rows(blocks["ql"], 2, 64), 4), split(rows(blocks["qh"], 2, 32), 2)
    codes = rows(low | high << np.uint8(4), 256).astype(np.int8) - np.int8(32)
    return Unpacked(codes, widened(blocks["d"]) * blocks["scales"])


def _with_minima(
    codes: Integers, scales: Integers, minima: Integers, blocks: Blocks
) -> Unpacked:
    # libggml subtracts: the same bits as adding what has the other sign.
    offsets = -(widened(blocks["dmin"]) * minima)
    return Unpacked(codes, widened(blocks["d"]) * scales, offsets)


def _two_bits(blocks: Blocks) -> Integers:
    return rows(split(rows(blocks["qs"], 2, 32), 2), 256)


def _four_bits(blocks: Blocks) -> Integers:
    return rows(split(rows(blocks["qs"], 4, 32), 4), 256)


def _six_bits(packed: Integers) -> tuple[Integers, Integers]:
    """Return eight scales and eight minima of twelve bytes.

    The first four of both are in the low bits of the first eight bytes, whose two high bits
    belong to the last four; their low bits are in the last four bytes.
    """
    scales, minima, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    pairs = ((scales, low & np.uint8(15)), (minima, low >> np.uint8(4)))
    first, second = (
        np.concatenate([head & np.uint8(63), tail | head >> np.uint8(6) << np.uint8(4)], axis=1)
        for head, tail in pairs
    )
    return first, second
