"""Blocks of integers under one scale: Q1_0 to Q8_1, Q8_K, and the ternary TQ1_0 and TQ2_0."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference.ggml.blocks import (
    Blocks,
    Integers,
    Unpacked,
    adjacent,
    rows,
    split,
    widened,
)

_TRIT_PARTS: Final = ((0, 32), (32, 48))
"""Bytes of `qs` whose trits follow each other: the first of each byte, then the second."""


def unpack_q1_0(blocks: Blocks) -> Unpacked:
    """A bit for each value: d, or -d where it is 0."""
    bits = adjacent(blocks["qs"], 1).astype(np.int8)
    return Unpacked(bits * np.int8(2) - np.int8(1), widened(blocks["d"]))


def unpack_q2_0(blocks: Blocks) -> Unpacked:
    """Codes 0 to 3 stand for -1 to 2."""
    return Unpacked(_minus(adjacent(blocks["qs"], 2), 1), widened(blocks["d"]))


def unpack_q4_0(blocks: Blocks) -> Unpacked:
    """Codes 0 to 15 stand for -8 to 7."""
    return Unpacked(_minus(split(blocks["qs"], 4), 8), widened(blocks["d"]))


def unpack_q4_1(blocks: Blocks) -> Unpacked:
    """Codes 0 to 15, and a smallest value."""
    return Unpacked(split(blocks["qs"], 4), widened(blocks["d"]), widened(blocks["m"]))


def unpack_q5_0(blocks: Blocks) -> Unpacked:
    """Codes 0 to 31 stand for -16 to 15."""
    return Unpacked(_minus(_five_bits(blocks), 16), widened(blocks["d"]))


def unpack_q5_1(blocks: Blocks) -> Unpacked:
    """Codes 0 to 31, and a smallest value."""
    return Unpacked(_five_bits(blocks), widened(blocks["d"]), widened(blocks["m"]))


def unpack_q8(blocks: Blocks) -> Unpacked:
    """Signed bytes: Q8_0, Q8_1 and Q8_K."""
    return Unpacked(blocks["qs"], widened(blocks["d"]))


def unpack_tq1_0(blocks: Blocks) -> Unpacked:
    """Five digits of base 3 in a byte, the first the most significant, and four in the last.

    A byte is the fraction 0.ddddd of base 3, rounded up to 256ths. So a digit is what three
    times the fraction has before the point, and the next fraction what it has behind it.
    """
    qs = blocks["qs"]
    parts = [_trits(qs[:, start:stop], 5) for start, stop in _TRIT_PARTS]
    trits = np.concatenate([*parts, _trits(blocks["qh"], 4)], axis=1)
    return Unpacked(_minus(trits, 1), widened(blocks["d"]))


def unpack_tq2_0(blocks: Blocks) -> Unpacked:
    """Codes 0 to 3 stand for -1 to 2; a quantizer makes the first three."""
    qs = rows(blocks["qs"], 2, 32)
    return Unpacked(_minus(rows(split(qs, 2), 256), 1), widened(blocks["d"]))


def _minus(codes: Integers, middle: int) -> Integers:
    return codes.astype(np.int8) - np.int8(middle)


def _five_bits(blocks: Blocks) -> Integers:
    return split(blocks["qs"], 4) | adjacent(blocks["qh"], 1) << np.uint8(4)


def _trits(packed: Integers, count: int) -> Integers:
    digits = []
    fractions = packed.astype(np.uint16)
    for _ in range(count):
        tripled = fractions * np.uint16(3)
        digits.append((tripled >> np.uint16(8)).astype(np.uint8))
        fractions = tripled & np.uint16(0xFF)
    return np.concatenate(digits, axis=1)
