"""The extremes of groups, found among integers that are ordered as the floats are.

Bits of negative values are flipped.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns

_UNIT: Final = 32


@jit
def find_keys(rows: Array, is_wide: Flag, high: Array, low: Array) -> None:
    """Find the extremes of rows of 32 or 64."""
    length = columns(rows, _UNIT, 2)
    for row in range(rows.shape[0]):
        # Not from a constant: x86 would make each row wait for the result of the last one.
        top = key_of(rows[row, 0], is_wide)
        bottom = top
        for i in range(length):
            key = key_of(rows[row, i], is_wide)
            top, bottom = max(top, key), min(bottom, key)
        high[row], low[row] = top, bottom


@jit
def join_spans(high: Array, low: Array, groups: int) -> None:
    """Join the extremes of two rows that are one group."""
    for i in range(groups):
        high[i] = max(high[2 * i], high[2 * i + 1])
        low[i] = min(low[2 * i], low[2 * i + 1])


@jit
def key_of(bits: np.integer, is_wide: Flag) -> np.signedinteger:
    """Return an integer that is ordered as the float of `bits`; its own inverse."""
    if is_wide is None:
        key = np.int16(bits)
        return np.int16(key ^ np.int16(np.int16(key >> np.int16(15)) & np.int16(0x7FFF)))
    wide = np.int32(bits)
    return np.int32(wide ^ np.int32(np.int32(wide >> np.int32(31)) & np.int32(0x7FFF_FFFF)))
