"""Codes times scales by compiled code, and codes of some bits out of their words."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, Memory, flag
from importer.codecs.reference import Bits, Codes
from importer.codecs.reference.floats import narrow
from importer.codecs.reference.scaled import TABLES, Places, ScaledCodes

_RARE_BITS: Final = (2, 3, 5, 6)

_decode: Final = Function("scaled", "decode")
_unpack: Final = Function("scaled", "unpack")


def decode(found: ScaledCodes, places: Places, dtype: str, values: Bits) -> Array:
    """Fill `values` with bits of `dtype`; return a flag for each row that a NaN makes void.

    All arrays are writable and contiguous.
    """
    left = np.empty(len(found.codes), np.uint8)
    _decode(
        found.codes,
        _table(found.kind),
        found.scales,
        found.scales if found.zeros is None else found.zeros,
        flag(found.zeros is not None),
        flag(found.kind == "U8"),
        places,
        found.width,
        flag(found.width == 1),
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        int(narrow(np.full(1, np.nan, np.float32), dtype)[0]),
        np.empty(256, values.dtype),
        values,
        left,
    )
    return left


def unpack(words: Bits, bits: int) -> Codes:
    """Unpack words, a multiple of 32 codes of 2, 3, 4, 5 or 6 bits, lowest bits first."""
    lanes = np.empty(words.size * 4 // bits, np.uint64)
    _unpack(words.reshape(-1), bits, flag(bits in _RARE_BITS), lanes)
    return lanes.view(np.uint8)


@functools.cache
def _table(kind: str) -> Memory:
    return Memory(TABLES[kind].copy())
