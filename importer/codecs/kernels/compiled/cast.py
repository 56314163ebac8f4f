"""Rounding to a float type of 16 bits."""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit


@jit
def round_all(source: Array, is_wide: Flag, to_half: Flag, bits: Array, largest: Array) -> None:
    """Round values.

    Args:
        source: bits of F32 (`is_wide`) or BF16.
        to_half: whether they become F16, and not BF16.
        bits: of the results; those of NaNs are void.
        largest: one element: the largest magnitude of the results, as bits.
    """
    found = np.uint16(0)
    for at in range(len(source)):
        made = np.uint16(narrow(widen(source[at], None, is_wide), to_half, None))
        bits[at] = made
        found = max(found, np.uint16(made & np.uint16(0x7FFF)))
    largest[0] = found
