"""The weights of onnxruntime's MatMulNBits in numpy: `(code - zero) * scale` in float32.

With zero points that are floats its CPU code computes `code * scale + (-scale * zero)`, and so
with columns that choose their block; both are what is done here, bit for bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Codes, Floats
from importer.codecs.reference.packing import unpack_low_first
from store.fs import Buffer


def rows_of_codes(data: Buffer, bits: int, rows: int, columns: int) -> Codes:
    """Return packed codes, `columns` of each row: the last bytes of a row may have more."""
    codes = unpack_low_first(data, bits)
    return codes.reshape(rows, -1 if rows else columns)[:, :columns]


def dequantize(codes: Codes, zero: Floats, scale: Floats) -> Floats:
    """Return values of codes and zero points that are integers; shapes broadcast."""
    return (codes.astype(np.float32) - zero) * scale


def dequantize_moved(codes: Codes, zero: Floats, scale: Floats) -> Floats:
    """Return values where zero points are multiplied first; shapes broadcast."""
    return codes.astype(np.float32) * scale + -scale * zero


def by_column(blocks: Floats, groups: npt.NDArray[np.int32]) -> Floats:
    """Return what a row has for each block, (rows, blocks), for each column instead.

    Raises:
        IndexError: a column chooses a block that is not there.
    """
    if groups.size and groups.min() < 0:
        raise IndexError
    return blocks[:, groups]
