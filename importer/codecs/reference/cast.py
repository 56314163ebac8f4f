"""Casts between float formats, each value rounded once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.floats import STORED, count_nonfinite, narrow, read, widen
from importer.codecs.spec import VALUE_DTYPES
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

_PIECE: Final = 1 << 15
"""Values at a time: the intermediate arrays stay in the cache."""

_Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]


def cast(rows: Buffer, dtype: str, wanted: str) -> tuple[Bits, int]:
    """Round elements of `dtype` to `wanted`, to the nearest and ties to even.

    Returns:
        bits: of the results; NaN and infinities are what they were.
        overflows: how many finite values became infinite.
    """
    result = np.empty(memoryview(rows).nbytes * 8 // ITEM_BITS[dtype], STORED[wanted])
    done = overflows = 0
    for finite, bits in _pieces(rows, dtype, wanted):
        result[done : done + len(bits)] = bits
        overflows += finite - (len(bits) - count_nonfinite(bits, wanted))
        done += len(bits)
    return result, overflows


def _pieces(rows: Buffer, dtype: str, wanted: str) -> Iterator[tuple[int, Bits]]:
    """Yield piece by piece how many values are finite, and the bits that they become."""
    if dtype == "F64":
        doubles = np.frombuffer(rows, np.float64)
        for start in range(0, len(doubles), _PIECE):
            piece = doubles[start : start + _PIECE]
            yield int(np.count_nonzero(np.isfinite(piece))), _narrow_doubles(piece, wanted)
        return
    stored = read(rows, dtype)
    for start in range(0, len(stored), _PIECE):
        values = widen(stored[start : start + _PIECE], VALUE_DTYPES[dtype])
        yield int(np.count_nonzero(np.isfinite(values))), narrow(values, wanted)


def _narrow_doubles(values: _Doubles, wanted: str) -> Bits:
    if wanted != "F32":
        return narrow(_to_odd(values), wanted)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float32).view(np.uint32)


def _to_odd(values: _Doubles) -> Floats:
    """Return F32 that rounds as a double would; one that is too large for it stays finite."""
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
