"""Quantize to GGML's blocks, by a kernel and in numpy what it leaves."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from importer.codecs.arithmetic import PIECE
from importer.codecs.base import Encoded
from importer.codecs.ggml.types import GgmlType
from importer.codecs.reference import Bits, Floats, floats
from importer.codecs.reference.ggml.blocks import LAYOUTS
from importer.codecs.reference.ggml.quantize import quantize
from importer.codecs.spec import VALUE_DTYPES
from store.fs import Buffer

_PROBE_ROWS: Final = 5
_PROBE_BLOCKS: Final = 3
_NO_POWER: Final = 255
"""The byte of a power of two that is none: MXFP4's tools refuse it."""

_Bytes = npt.NDArray[np.uint8]


class QuantizingKernel(Protocol):
    """The quantizers of all types, compiled; a module implements it."""

    def encode(
        self, name: str, source: Bits, dtype: str, importance: Floats | None, blocks: _Bytes
    ) -> _Bytes:
        """Fill rows of blocks; return 1 for each row that numpy has to do."""
        ...


def encode(
    kind: GgmlType,
    dtype: str,
    values: Buffer,
    importance: bytes | None,
    kernel: QuantizingKernel | None,
) -> Encoded:
    """Return the blocks of values, which are whole rows where there is importance."""
    weights = None if importance is None else np.frombuffer(importance, "<f4").copy()
    columns = kind.elements if weights is None else len(weights)
    source = floats.read(values, dtype).reshape(-1, columns)
    blocks, nonfinite = _encode(kind, VALUE_DTYPES[dtype], source, weights, kernel)
    return Encoded((blocks.reshape(-1).data,), nonfinite)


def check(kind: GgmlType, dtype: str, kernel: QuantizingKernel, *, is_weighted: bool) -> None:
    """Compare a kernel with numpy on some rows.

    Raises:
        ArithmeticError: they differ.
    """
    count = kind.elements * _PROBE_BLOCKS
    mixed = np.arange(_PROBE_ROWS * count, dtype=np.uint32) * np.uint32(2654435761)
    values = mixed.view(np.int32).astype(np.float32) * np.float32(2.0**-33)
    columns = count if is_weighted else kind.elements
    values[: kind.elements] = 0
    source = floats.narrow(values, dtype).reshape(-1, columns)
    weights = np.abs(values[-columns:]) if is_weighted else None
    fast, slow = (_encode(kind, dtype, source, weights, way)[0] for way in (kernel, None))
    if not np.array_equal(fast, slow):
        raise ArithmeticError(f"the kernel that quantizes to {kind.name} differs from numpy")


def _encode(
    kind: GgmlType,
    dtype: str,
    source: Bits,
    weights: Floats | None,
    kernel: QuantizingKernel | None,
) -> tuple[_Bytes, int]:
    rows, columns = source.shape
    blocks = np.empty((rows, kind.row_nbytes(columns)), np.uint8)
    if kernel is None:
        left = np.arange(rows)
    else:
        left = np.flatnonzero(kernel.encode(kind.name, source, dtype, weights, blocks))
    step = max(1, PIECE // columns)
    nonfinite = 0
    for start in range(0, len(left), step):
        piece = left[start : start + step]
        values = floats.widen(source[piece], dtype)
        lost = ~np.isfinite(values)
        made = quantize(
            kind.name, kind.elements, np.where(lost, np.float32(0), values), weights
        )
        lost.reshape(len(made), -1)[_is_lost(kind, made)] = True
        nonfinite += int(np.count_nonzero(lost))
        blocks[piece] = made.reshape(len(piece), -1)
    return blocks, nonfinite


def _is_lost(kind: GgmlType, blocks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return whether each block has a scale that is too large."""
    fields = blocks.view(LAYOUTS[kind.name])[:, 0]
    if kind.name == "MXFP4":
        return np.asarray(fields["e"] == _NO_POWER)
    scales = [fields[name] for name in ("d", "dmin", "m") if name in (fields.dtype.names or ())]
    return np.asarray(~np.isfinite(scales).all(axis=0))
