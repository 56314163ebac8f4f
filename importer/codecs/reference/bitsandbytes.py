"""The values of bitsandbytes, in the order of operations of the library, 0.50.2.

Sources: `_dequantize_4bit_compute` and `_dequantize_blockwise_compute` of
`backends/default/ops.py`, `dequantize_4bit` and `QuantState` of `functional.py`,
`int8_vectorwise_dequant` of `_ops.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Codes, Floats

_LOW: Final = np.uint8(0x0F)
_RECIPROCAL: Final = np.float32(7.874015718698502e-3)
"""Of 127, as the library has it."""


def unpack(data: Codes) -> Codes:
    """Return two codes for each byte: the upper half is the first."""
    codes = np.empty((len(data), 2), np.uint8)
    codes[:, 0], codes[:, 1] = data >> 4, data & _LOW
    return codes.reshape(-1)


def magnitudes(
    codes: Codes, scales: Floats, book: Floats, block_size: int, offset: float
) -> Floats:
    """Return the magnitudes of blocks that are quantized to bytes.

    Args:
        codes: one for each block, from the first of a block of these on.
        scales: one for each `block_size` codes.
    """
    values = book[codes]
    values *= np.repeat(scales, block_size)[: len(codes)]
    values += np.float32(offset)
    return values


def dequantize(codes: Codes, largest: Floats, book: Floats) -> Floats:
    """Return the values of codes of shape (blocks, block size).

    Args:
        largest: magnitude of each block.
    """
    values = book[codes]
    values *= largest[:, None]
    return values


def dequantize_rows(codes: npt.NDArray[np.int8], largest: Floats) -> Floats:
    """Return the values of codes of shape (rows, columns).

    Args:
        largest: magnitude of each row.
    """
    values = codes.astype(np.float32)
    values *= largest[:, None]
    values *= _RECIPROCAL
    return values
