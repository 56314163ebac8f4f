"""Decode GGML's blocks, by a kernel and in numpy what it leaves, and repack them."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from importer.codecs.arithmetic import PIECE
from importer.codecs.base import Encoded
from importer.codecs.ggml.types import GgmlType
from importer.codecs.reference import Floats, floats, ggml, packing
from importer.codecs.reference.ggml import repacked
from importer.codecs.spec import Mode, QuantSpec
from store.fs import Buffer

_PROBE: Final = 200
_WORD: Final = 32

_Bytes = npt.NDArray[np.uint8]


class BlockKernel(Protocol):
    """The blocks of all types, compiled; a module implements it."""

    def decode(self, name: str, blocks: _Bytes, values: Floats) -> _Bytes:
        """Fill `values`; return 1 for each block that numpy has to decode."""
        ...


def decode(kind: GgmlType, blocks: Buffer, kernel: BlockKernel | None) -> Buffer:
    """Return the values of whole blocks, as bytes of F32."""
    rows = np.frombuffer(blocks, np.uint8).reshape(-1, kind.nbytes)
    return _decode(kind, rows, kernel).reshape(-1).view(np.uint8).data


def repack(kind: GgmlType, blocks: Buffer, spec: QuantSpec) -> Encoded:
    """Return whole blocks as parts of `spec`, for values of F32."""
    rows = np.frombuffer(blocks, np.uint8).reshape(-1, kind.nbytes)
    groups = len(rows) * kind.elements // spec.group_size
    words = np.empty((groups, spec.group_size * spec.bits // _WORD), np.uint32)
    scales = np.empty(groups, np.float32 if spec.has_bias else np.uint8)
    biases = np.empty(groups if spec.has_bias else 0, np.float32)
    inexact, begin = 0, 0
    step = max(1, PIECE // kind.elements)
    for start in range(0, len(rows), step):
        made = _repacked(kind, rows[start : start + step], spec)
        part = slice(begin, begin + len(made.codes))
        words[part] = packing.pack(made.codes, spec.bits)
        scales[part] = made.scales
        if made.biases is not None:
            biases[part] = made.biases
        inexact += int(np.count_nonzero(~made.is_exact))
        begin = part.stop
    parts = (words, scales, biases) if spec.has_bias else (words, scales)
    return Encoded(
        tuple(part.reshape(-1).view(np.uint8).data for part in parts),
        inexact * spec.group_size,
    )


def check(kind: GgmlType, kernel: BlockKernel) -> None:
    """Compare a kernel with numpy on some blocks.

    Raises:
        ArithmeticError: they differ.
    """
    mixed = np.arange(_PROBE * kind.nbytes, dtype=np.uint32) * np.uint32(2654435761)
    blocks = (mixed >> 24).astype(np.uint8).reshape(-1, kind.nbytes)
    fast, slow = (_decode(kind, blocks, way).view(np.uint32) for way in (kernel, None))
    if not np.array_equal(fast, slow):
        raise ArithmeticError(f"the kernel that decodes {kind.name} differs from numpy")


def _repacked(kind: GgmlType, blocks: _Bytes, spec: QuantSpec) -> repacked.Repacked:
    match spec.mode:
        case Mode.MXFP4:
            return repacked.mxfp4(blocks)
        case Mode.NVFP4:
            return repacked.nvfp4(blocks)
        case _:
            return repacked.affine(kind.name, blocks, spec.group_size)


def _decode(kind: GgmlType, blocks: _Bytes, kernel: BlockKernel | None) -> Floats:
    values = np.empty((len(blocks), kind.elements), np.float32)
    if kernel is None:
        left = np.arange(len(blocks))
    else:
        taken = floats.behaved(blocks)
        left = np.flatnonzero(kernel.decode(kind.name, taken, values))
    step = max(1, PIECE // kind.elements)
    for start in range(0, len(left), step):
        piece = left[start : start + step]
        values[piece] = ggml.decode(kind.name, blocks[piece])
    return values
