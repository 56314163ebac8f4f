"""Measure what a codec makes of values, by a kernel or in numpy, to the same bits."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from importer.codecs import engine
from importer.codecs.arithmetic import Floats, floats
from importer.codecs.arithmetic.deviation import Sums, add
from importer.codecs.base import Operation
from importer.codecs.grouped import Grouped
from importer.deviation import Deviation
from importer.quant import Mode
from store.fs import Buffer

_PIECE: Final = engine.PIECE
_FLOAT_EDGES: Final[Mapping[Mode, tuple[int, int, int, int]]] = MappingProxyType(
    {
        Mode.NVFP4: (15, 14, 6, 7),
        Mode.MXFP4: (15, 14, 6, 7),
        Mode.MXFP8: (0xFE, 0xFD, 0x7D, 0x7E),
    }
)
"""The codes of the lowest value, the one above it, the one below the highest, the highest."""


class Measure:
    """Compares the values of one tensor with what it was encoded to, piece by piece."""

    def __init__(self, codec: Grouped) -> None:
        """Begin; whether by a kernel depends on whether decoding has one that is ready."""
        self._codec = codec
        self._sums = Sums()
        self._elements = 0

    def add(self, rows: Buffer, parts: Sequence[Buffer]) -> None:
        """Add a whole number of groups of the source, and what became of them."""
        codec, size = self._codec, self._codec.spec.group_size
        dtype = codec.value_dtype
        source = floats.read(rows, codec.dtype).reshape(-1, size)
        decoded = np.frombuffer(codec.decode(parts), floats.STORED[dtype]).reshape(-1, size)
        self._elements += source.size
        low, high = _bounds(codec, parts)
        if engine.ready(Operation.DECODE, codec) is not None:
            # It imports numba.
            from importer.codecs.kernels import deviation  # noqa: PLC0415

            deviation.add(self._sums, source, decoded, dtype, low, high)
            return
        # A multiple of all lanes, so that the order of the sums stays as it is.
        step = _PIECE // size
        with np.errstate(all="ignore"):
            for start in range(0, len(source), step):
                piece = slice(start, start + step)
                values = floats.widen(source[piece], dtype), floats.widen(decoded[piece], dtype)
                add(self._sums, *values, low[piece], high[piece])

    def result(self) -> Deviation:
        """Give what was found."""
        sums = self._sums
        # One by one: `sum` compensates from Python 3.12 on.
        source, decoded, product, error = (
            functools.reduce(operator.add, lanes) for lanes in sums.lanes.tolist()
        )
        return Deviation(
            self._elements,
            source,
            decoded,
            product,
            error,
            sums.largest,
            sums.clipped,
            sums.zeroed,
        )


def _bounds(codec: Grouped, parts: Sequence[Buffer]) -> tuple[Floats, Floats]:
    """From where on a value of each group is clipped, below and above."""
    spec, dtype = codec.spec, codec.value_dtype
    companions = [
        np.frombuffer(part, floats.STORED[kind])
        for part, (_, kind) in zip(parts[1:], codec.companions, strict=True)
    ]
    last = (1 << spec.bits) - 1
    edges = _FLOAT_EDGES.get(spec.mode, (0, 1, last - 1, last))
    codes = np.tile(np.array(edges, np.uint8), (len(companions[0]), 1))
    with np.errstate(all="ignore"):
        first, second, third, fourth = codec.arithmetic.decode(codes, companions, dtype, spec).T
        low, high = np.minimum(first, fourth), np.maximum(first, fourth)
        below, above = np.abs(second - first) / 2, np.abs(fourth - third) / 2
        return (low - below).astype(np.float32), (high + above).astype(np.float32)
