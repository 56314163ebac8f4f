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
from importer.codecs.arithmetic.minifloats import E4M3_VALUES, exponents_of, power_of_two
from importer.codecs.base import Operation
from importer.codecs.grouped import Grouped
from importer.deviation import Deviation
from importer.quant import Mode
from store.fs import Buffer

_PIECE: Final = engine.PIECE
_FLOAT_EDGES: Final[Mapping[Mode, int]] = MappingProxyType(
    {Mode.NVFP4: 6 + 1, Mode.MXFP4: 6 + 1, Mode.MXFP8: 448 + 16}
)
"""The largest code, and half of the step to it."""


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
    spec = codec.spec
    scale, *rest = (
        np.frombuffer(part, floats.STORED[kind])
        for part, (_, kind) in zip(parts[1:], codec.companions, strict=True)
    )
    with np.errstate(all="ignore"):
        match spec.mode:
            case Mode.AFFINE:
                (bias,) = (floats.widen(part, codec.value_dtype) for part in rest)
                step = floats.widen(scale, codec.value_dtype)
                end = bias + step * np.float32((1 << spec.bits) - 1)
                half = np.abs(step) / np.float32(2)
                low, high = np.minimum(bias, end) - half, np.maximum(bias, end) + half
                return low.astype(np.float32), high.astype(np.float32)
            case Mode.NVFP4:
                step = E4M3_VALUES[scale]
            case _:
                step = power_of_two(exponents_of(scale))
        edge = np.abs(step) * np.float32(_FLOAT_EDGES[spec.mode])
        return -edge, edge
