"""HQQ as mistral.rs computes it on a CPU: mistralrs-quant/src/hqq/hqq_op.rs of 0.9.5."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats
from importer.codecs.reference.floats import narrow, rounded, widen
from importer.codecs.reference.ggml.quantize.rounding import away, total

Errors = npt.NDArray[np.float64]

_BYTE: Final = 8
_PIECE: Final = 256
"""Groups that are encoded together, so that what numpy makes on the way stays in the cache."""
LARGEST_SCALE: Final = np.float32(2e4)
"""Also where all values of a group are equal."""
_BETA: Final = 10.0
_KAPPA: Final = 1.01
_EXPONENT: Final = np.float32(0.7) - np.float32(1)


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


def encode(values: Floats, bits: int, steps: int) -> tuple[Codes, Floats, Floats, Errors]:
    """Return codes, scales, zero points, and the sum of each group's errors before each step.

    `quantize` and `optimize_weights_proximal_legacy` of mistralrs-quant/src/hqq: float32
    throughout, but for the power, which is rounded to float32 from float64 and may differ by
    one digit from glibc's. Sums are in the order of the rows, those of errors in float64.

    Args:
        values: of shape (group size, groups): each column is a group.
        bits: of a code.
        steps: of the search for zero points.
    """
    width = values.shape[1]
    codes = np.empty(values.shape, np.uint8)
    scales, zeros = np.empty((2, width), np.float32)
    errors = np.empty((steps, width))
    for start in range(0, width, _PIECE):
        there = slice(start, start + _PIECE)
        piece = np.ascontiguousarray(values[:, there])
        codes[:, there], scales[there], zeros[there] = _encode(piece, bits, errors[:, there])
    return codes, scales, zeros, errors


def _encode(values: Floats, bits: int, errors: Errors) -> tuple[Codes, Floats, Floats]:
    last_code = np.float32((1 << bits) - 1)
    low, high = values.min(axis=0), values.max(axis=0)
    scales = np.clip(np.float32(1) / (high - low) * last_code, 0, LARGEST_SCALE)
    zeros = -low * scales
    beta = _BETA
    for row in errors:
        placed = _codes(values, scales, zeros, last_code)
        rest = values - (placed - zeros) / scales
        size = np.abs(rest)
        row[:] = np.add.accumulate(size, axis=0, dtype=np.float64)[-1]
        power = (size.astype(np.float64) ** float(_EXPONENT)).astype(np.float32)
        shrunk = np.sign(rest) * np.fmax(size - np.float32(1 / beta) * power, np.float32(0))
        wanted = placed - (values - shrunk) * scales
        zeros = total(wanted) * np.float32(1 / len(values))
        beta *= _KAPPA
    codes = _codes(values, scales, zeros, last_code).astype(np.uint8)
    return codes, np.float32(1) / scales, zeros


def pack(codes: Codes, bits: int) -> Codes:
    """Undo `unpack`, of all rows: return rows of bytes."""
    parts = codes.reshape(_BYTE // bits, -1, codes.shape[1])
    packed = np.zeros(parts.shape[1:], np.uint8)
    for part in parts:
        packed = (packed << np.uint8(bits % _BYTE)) | part
    return packed


def _codes(values: Floats, scales: Floats, zeros: Floats, last_code: np.float32) -> Floats:
    return np.clip(away(values * scales + zeros), np.float32(0), last_code)
