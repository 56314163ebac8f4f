"""HQQ's encoder by compiled code, for groups whose errors are never shrunk to more than 0."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, Memory, flag
from importer.codecs.reference import Codes, Floats
from importer.codecs.reference.hqq import LARGEST_SCALE, Errors

COLUMNS: Final = 128
"""Groups that go through all steps together, so that they stay in the second-level cache."""
_STATES: Final = 6

_encode: Final = Function("hqq", "encode")
_measure: Final = Function("hqq", "measure")


class _Scratch(threading.local):
    """A thread's memory, 4 KB."""

    def __init__(self) -> None:
        self.state = Memory(np.zeros(_STATES * COLUMNS, np.float32))
        self.sums = Memory(np.zeros(COLUMNS, np.float64))


_scratch: Final = _Scratch()


def encode(values: Floats, bits: int, steps: int, parts: tuple[Codes, Floats, Floats]) -> Array:
    """Fill `parts`; return a flag for each group left to numpy.

    Args:
        values: of shape (64, groups), contiguous.
        bits: of a code, 4 or 8.
        steps: of the search for zero points.
        parts: rows of bytes, of shape (8 * bits, groups), scales and zero points, of shape
            (groups,).
    """
    packed, scales, zeros = parts
    left = np.empty(values.shape[1], np.uint8)
    _encode(
        values,
        flag(bits == 4),  # noqa: PLR2004 - two codes to a byte
        steps,
        LARGEST_SCALE,
        _scratch.state,
        packed,
        scales,
        zeros,
        left,
    )
    return left


def measure(values: Floats, bits: int, errors: Errors) -> Array:
    """Fill the sum of each group's errors before each step; return flags.

    Args:
        values: as for `encode`.
        bits: as for `encode`.
        errors: of shape (steps, groups).
    """
    left = np.empty(values.shape[1], np.uint8)
    _measure(
        values,
        flag(bits == 4),  # noqa: PLR2004 - two codes to a byte
        LARGEST_SCALE,
        _scratch.state,
        _scratch.sums,
        errors,
        left,
    )
    return left
