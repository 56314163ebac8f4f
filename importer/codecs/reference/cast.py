"""Downcasts between float formats, each value rounded once."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.floats import STORED, count_nonfinite, narrow, widen
from store.fs import Buffer

_PIECE: Final = 1 << 15
"""Values at a time: the intermediate arrays stay in the cache."""


def cast(rows: Buffer, dtype: str, wanted: str) -> tuple[Bits, int]:
    """Round elements of `dtype` to `wanted`, to the nearest and ties to even.

    Returns:
        bits: of the results; NaN and infinities are what they were.
        overflows: how many finite values became infinite.
    """
    kind = np.float64 if dtype == "F64" else STORED[dtype]
    source = np.frombuffer(rows, kind)
    result = np.empty(len(source), STORED[wanted])
    overflows = 0
    for start in range(0, len(source), _PIECE):
        piece = source[start : start + _PIECE]
        # An F64 that is too large for F32 stays finite until the second rounding.
        values = _to_odd(piece) if dtype == "F64" else widen(piece, dtype)
        result[start : start + _PIECE] = bits = narrow(values, wanted)
        finite = int(np.count_nonzero(np.isfinite(values)))
        overflows += finite - (len(bits) - count_nonfinite(bits, wanted))
    return result, overflows


def _to_odd(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Floats:
    # Rounding twice is rounding once if the first time inexact values get an odd last digit
    # (Boldo and Melquiond, 2008): a tie of the second rounding is then a true one.
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        back = near.astype(np.float64)
    bits = near.view(np.uint32)
    too_far = np.abs(back) > np.abs(values)
    bits = np.where(too_far, bits - np.uint32(1), bits)
    inexact = (back != values) & ~np.isnan(values)
    return np.where(inexact, bits | np.uint32(1), bits).view(np.float32)
