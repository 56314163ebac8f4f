"""HQQ as mistral.rs computes it on a CPU: mistralrs-quant/src/hqq/hqq_op.rs of 0.9.5."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Codes
from importer.codecs.reference.floats import narrow, rounded, widen

_BYTE: Final = 8


def unpack(packed: Codes, row: int, packed_rows: int, bits: int) -> Codes:
    """Return the codes of a part of one row of a group matrix.

    Rows of all codes are cut into as many equal parts as fit a byte, the first part in the
    highest bits: of 4 bits and 64 rows, row 0 is in the upper halves of the bytes of row 32.

    Args:
        packed: the bytes that the codes share with those of other rows.
        row: of the codes.
        packed_rows: rows of bytes.
        bits: of a code, 1, 2, 4 or 8.
    """
    shift = _BYTE - bits * (row // packed_rows + 1)
    return (packed >> np.uint8(shift)) & np.uint8((1 << bits) - 1)


def decode(codes: Codes, scales: Bits, zeros: Bits, dtype: str) -> Bits:
    """Subtract the zero points and multiply, rounding to `dtype` after each."""
    scale, zero = widen(scales, dtype), widen(zeros, dtype)
    with np.errstate(all="ignore"):
        values = rounded(codes.astype(np.float32) - zero, dtype) * scale
    # Of two that are multiplied, which one's bits are kept is the processor's choice.
    if (is_nan := np.isnan(values)).any():
        values[is_nan] = np.nan
    return narrow(values, dtype)
