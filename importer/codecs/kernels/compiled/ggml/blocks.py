"""The numbers in a block: of two and four bytes, of four bits, and F16."""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import widen
from importer.codecs.kernels.compiled.jit import Array, jit


@jit
def u16(block: Array, place: int) -> np.uint16:
    """Return the integer of two bytes at a place."""
    high = np.uint16(np.uint16(block[place + 1]) << np.uint16(8))
    return np.uint16(np.uint16(block[place]) | high)


@jit
def f16(block: Array, place: int) -> np.float32:
    """Return the F16 at a place; 2 ** 16 or more where it is not finite."""
    return widen(u16(block, place), True, None)


@jit
def u32(block: Array, place: int) -> np.uint32:
    """Return the integer of four bytes at a place."""
    word = np.uint32(0)
    for i in range(4):
        word = np.uint32(word | np.uint32(np.uint32(block[place + i]) << np.uint32(8 * i)))
    return word


@jit
def flag(scale: np.float32, minimum: np.float32) -> np.uint8:
    """Return 1 where one of two numbers that were F16 is not finite."""
    largest = max(abs(scale), abs(minimum))
    return np.uint8(0) if largest < np.float32(2**16) else np.uint8(1)


@jit
def nibble(block: Array, place: int, number: int) -> np.uint8:
    """Return a number of four bits, of those that begin at a place, low halves first."""
    return np.uint8(
        np.uint8(block[place + number // 2] >> np.uint8(4 * (number % 2))) & np.uint8(15)
    )
