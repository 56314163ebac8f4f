"""The values of bitsandbytes' 4 bits by compiled code, for finite magnitudes."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import flag
from importer.codecs.reference import Bits, Codes, Floats, floats

_decode: Final = Function("bitsandbytes", "decode")


def decode(data: Codes, largest: Floats, book: Floats, block_size: int, dtype: str) -> Bits:
    """Return the values of whole blocks; the last may be short.

    Args:
        data: two codes in a byte, writable.
        largest: magnitude of each block, finite, as `book` is.
        block_size: values of a block; even.
    """
    kind = floats.STORED[dtype]
    values = np.empty(2 * len(data), kind)
    _decode(
        data,
        largest,
        book,
        block_size,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        np.empty(len(book), kind),
        values,
    )
    return values
