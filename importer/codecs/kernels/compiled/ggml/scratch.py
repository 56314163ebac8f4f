"""The memory that quantizers to GGML's blocks work in, which they cannot allocate."""

from __future__ import annotations

from typing import Final, NamedTuple

from importer.codecs.kernels.compiled.jit import Array

TOGETHER: Final = 16
"""Blocks that go through all steps together, as lanes of vectors are."""
SCALES: Final = 0
MINIMA: Final = 1
SUMS: Final = 2
ENERGIES: Final = 3
STEPS: Final = 4
STARTS: Final = 5
FOUND: Final = 6
"""Rows of `numbers`; the last two are what rounded scales and minima are multiplied by."""


class Scratch(NamedTuple):
    """Memory for sixteen blocks of 256.

    Attributes:
        lanes: float32 of shape (3, 32, 16): values, weights and codes of groups in lanes.
        found: float32 of shape (4, 16): what search.py finds of the groups in lanes.
        numbers: float32 of shape (8, 256).
        codes: uint8 of shape (groups, elements of a group), and `flat` the same memory.
        integers: uint8 of shape (2, 256): rounded scales and minima.
    """

    lanes: Array
    found: Array
    numbers: Array
    codes: Array
    flat: Array
    integers: Array
