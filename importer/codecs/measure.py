"""Measure how far encoded values are from their source, by a kernel or in numpy alike."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from importer.codecs import arithmetic
from importer.codecs.base import Codec, Decoder, KernelSpec, Operation, Runtime, Shape
from importer.codecs.cast import Rounded
from importer.codecs.grouped import Grouped
from importer.codecs.kernels import Bounds, Summing
from importer.codecs.metrics import Deviation
from importer.codecs.reference import Bits, floats
from importer.codecs.reference.metrics import LANES, Sums, add
from importer.codecs.reference.minifloats import E4M3_VALUES, exponents_of, power_of_two
from importer.codecs.spec import VALUE_DTYPES, Mode
from store.fs import Buffer

_GROUP: Final = 32
_FLOAT_EDGES: Final[Mapping[Mode, int]] = MappingProxyType(
    {Mode.NVFP4: 6 + 1, Mode.MXFP4: 6 + 1, Mode.MXFP8: 448 + 16}
)
"""The largest code, plus half of the step that leads to it."""


@dataclass(frozen=True, slots=True)
class SumKernel:
    """The kernel that sums over values and what they were encoded to.

    Attributes:
        dtype: of the values.
    """

    dtype: str

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        from importer.codecs.kernels import metrics  # noqa: PLC0415 - only where it is used

        return metrics

    def check(self, kernel: Summing) -> None:
        """Compare the kernel with numpy.

        Raises:
            ArithmeticError: they differ.
        """
        # Two unrelated tensors, so that all sums are large.
        dtype = self.dtype
        source = arithmetic.probe(dtype, _GROUP)
        decoded = source[::-1].copy()
        high = np.abs(floats.widen(source, dtype)).mean(axis=1)
        fast, slow = Sums(), Sums()
        kernel.add(fast, source, decoded, dtype, (-high, high))
        _add(slow, source, decoded, dtype, (-high, high))
        if _facts(fast) != _facts(slow):
            raise ArithmeticError(f"the kernel that sums {dtype} differs from numpy")


def kernels(codec: Codec | Rounded) -> tuple[KernelSpec, ...]:
    """Return the kernels that make measuring a codec fast, decoding included."""
    return (*codec.kernels(Operation.DECODE), SumKernel(codec.value_dtype))


class Total:
    """Sums over two tensors' values, tile by tile, however each is stored."""

    def __init__(self, dtype: str, runtime: Runtime) -> None:
        """Start at zero.

        Args:
            dtype: in which both are compared: that of their values, or F32 where these differ.
            runtime: whose kernels are used.
        """
        self._dtype = dtype
        self._sum = runtime.kernel(SumKernel(dtype))
        self._sums = Sums()
        self._elements = 0

    def add(self, a: tuple[Buffer, str], b: tuple[Buffer, str]) -> None:
        """Add the values of some elements, each side with its dtype.

        Only the last call may bring another number than a multiple of 64, so that the order of
        the sums does not depend on tiles.
        """
        first, second = (self._bits(*side) for side in (a, b))
        self._elements += len(first)
        whole = len(first) - len(first) % LANES
        self._add(first[:whole].reshape(-1, LANES), second[:whole].reshape(-1, LANES))
        if whole < len(first):
            self._add(first[None, whole:], second[None, whole:])

    def result(self) -> Deviation:
        """Return how far the second is from the first; nothing counts as clipped."""
        return _deviation(self._sums, self._elements)

    def _add(self, these: Bits, those: Bits) -> None:
        edge = np.full(len(these), np.inf, np.float32)
        add_groups = _add if self._sum is None else self._sum.add
        add_groups(self._sums, these, those, self._dtype, (-edge, edge))

    def _bits(self, values: Buffer, dtype: str) -> Bits:
        bits, kind = floats.read(values, dtype), VALUE_DTYPES[dtype]
        return bits if kind == self._dtype else floats.widen(bits, kind).view(np.uint32)


class Measure:
    """Compares the values of one tensor with what they were encoded to, piece by piece."""

    def __init__(self, source: Decoder, codec: Codec | Rounded, runtime: Runtime) -> None:
        """Start at zero, with the kernels that `runtime` has.

        Args:
            source: reads the values of the source.
            codec: reads the parts that it made, or what was rounded to a shorter float.
        """
        self._source = source
        self._codec = codec
        self._runtime = runtime
        self._sum = runtime.kernel(SumKernel(codec.value_dtype))
        self._sums = Sums()
        self._elements = 0

    def add(
        self,
        arrays: Sequence[Buffer],
        parts: Sequence[Buffer],
        shape: Shape,
        elements: range,
    ) -> None:
        """Add a whole number of units.

        Args:
            arrays: of the source, for these elements.
            parts: what the codec made of these elements.
            shape: of the source tensor.
            elements: a range that begins and ends at units of the codec.
        """
        codec, size = self._codec, self._codec.unit(shape)
        dtype = codec.value_dtype
        values = self._source.decode(arrays, shape, elements, self._runtime)
        source = floats.read(values, codec.dtype).reshape(-1, size)
        made = codec.decode(parts, shape, elements, self._runtime)
        decoded = floats.read(made, dtype).reshape(-1, size)
        self._elements += source.size
        add_groups = _add if self._sum is None else self._sum.add
        add_groups(self._sums, source, decoded, dtype, _bounds(codec, parts, len(source)))

    def result(self) -> Deviation:
        """Return the deviation of all that was added."""
        return _deviation(self._sums, self._elements)


def _deviation(sums: Sums, elements: int) -> Deviation:
    # One by one: `sum` compensates from Python 3.12 on.
    source, decoded, product, error = (
        functools.reduce(operator.add, lanes) for lanes in sums.lanes.tolist()
    )
    return Deviation(
        elements, source, decoded, product, error, sums.largest, sums.clipped, sums.zeroed
    )


def _add(sums: Sums, source: Bits, decoded: Bits, dtype: str, bounds: Bounds) -> None:
    low, high = bounds
    # A multiple of all lanes, so that the order of the sums stays as it is.
    step = arithmetic.PIECE // source.shape[1]
    with np.errstate(all="ignore"):
        for start in range(0, len(source), step):
            piece = slice(start, start + step)
            values = floats.widen(source[piece], dtype), floats.widen(decoded[piece], dtype)
            add(sums, *values, low[piece], high[piece])


def _facts(sums: Sums) -> tuple[object, ...]:
    return (sums.lanes.tolist(), sums.largest, sums.clipped, sums.zeroed)


def _bounds(codec: Codec | Rounded, parts: Sequence[Buffer], groups: int) -> Bounds:
    """Return the values below and above which each group clips."""
    if not isinstance(codec, Grouped):
        edge = np.full(groups, np.inf, np.float32)
        return -edge, edge
    spec = codec.spec
    scale, *rest = (
        np.frombuffer(part, floats.STORED[kind])
        for part, (_, kind) in zip(parts[1:], codec.scale_parts, strict=True)
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
