"""Views of plain values that are not in row-major order: transposed, sliced, repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.views.layout import Layout
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

_SMALL: Final = 4 << 20
"""Bytes that are read, or made, at once."""
_UNIT: Final = 8 << 20
_RUN: Final = 512
"""Bytes of a run where there is room for it."""
_SHORTEST: Final = 32
"""Bytes of a run: for less, another call for each is not worth it."""
_WASTE: Final = 4
"""Bytes that are read for each byte that is used, at most."""


class _Dimension(NamedTuple):
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Strided(Layout):
    """Reads a view of one array, from its first element to its last.

    A small view is read at once. Of a larger one, either each row is near together (slices,
    permuted inner dimensions), or rows are columns of what is stored (transposed): runs of
    some rows' values in each of them.

    Attributes:
        value_dtype: of whole bytes.
        strides: elements from one to the next, of each dimension.
    """

    value_dtype: str
    strides: Shape

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return ITEM_BITS[self.value_dtype] // 8

    def can_read(self, shape: Shape) -> bool:
        """Return whether a view can be read in bounded memory and reasonable time."""
        if self._is_small(shape):
            return True
        first, *rest = self._dimensions(shape)
        if _is_transposed(first, rest):
            rows = self._rows(first, rest[0])
            return rows * self.item >= min(_SHORTEST, first.size * self.item)
        extent = _extent(rest)
        return (
            first.stride >= extent
            and _SHORTEST <= extent * self.item <= _SMALL
            and extent <= _WASTE * _count(rest)
        )

    def unit(self, shape: Shape) -> int:
        """Return the elements of all, of a row, or of the rows that are worth a run."""
        if self._is_small(shape):
            return max(math.prod(shape), 1)
        first, *rest = self._dimensions(shape)
        rows = self._rows(first, rest[0]) if _is_transposed(first, rest) else 1
        return rows * _count(rest)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the whole view, or some rows of it."""
        if not len(elements):
            return (Span(0, 0),)
        dimensions = self._dimensions(shape)
        if self._is_small(shape):
            return (Span(0, _extent(dimensions) * self.item),)
        first, *rest = dimensions
        row, rows = elements.start // _count(rest), len(elements) // _count(rest)
        begin = row * first.stride * self.item
        if _is_transposed(first, rest):
            (columns,) = rest
            nbytes = rows * columns.size * self.item
            return (Span(begin, nbytes, columns.size, columns.stride * self.item),)
        nbytes = rows * _extent(rest) * self.item
        return (Span(begin, nbytes, rows, first.stride * self.item),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,
        elements: range,
        runtime: Runtime,  # noqa: ARG002 - the contract
    ) -> Buffer:
        """Return the values in row-major order."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        if not len(elements):
            return b""
        (data,) = arrays
        values = np.frombuffer(data, f"<u{self.item}")
        dimensions = self._dimensions(shape)
        if not self._is_small(shape):
            first, *rest = dimensions
            rows = len(elements) // _count(rest)
            if _is_transposed(first, rest):
                dimensions = [_Dimension(rows, 1), _Dimension(rest[0].size, rows)]
            else:
                dimensions = [_Dimension(rows, _extent(rest)), *rest]
        made = np.lib.stride_tricks.as_strided(
            values,
            [one.size for one in dimensions],
            [one.stride * self.item for one in dimensions],
            writeable=False,
        )
        return np.ascontiguousarray(made).reshape(-1).view("u1").data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    def _is_small(self, shape: Shape) -> bool:
        read = _extent(self._dimensions(shape)) * self.item
        return max(read, math.prod(shape) * self.item) <= _SMALL

    def _rows(self, first: _Dimension, columns: _Dimension) -> int:
        fit = _UNIT // (columns.size * self.item)
        return max(1, min(first.size, _RUN // self.item, fit))

    def _dimensions(self, shape: Shape) -> list[_Dimension]:
        """Return the dimensions without those of size 1, and with neighbors joined."""
        found: list[_Dimension] = []
        for size, stride in zip(shape, self.strides, strict=True):
            if size == 1:
                continue
            if found and found[-1].stride == size * stride:
                found[-1] = _Dimension(found[-1].size * size, stride)
            else:
                found.append(_Dimension(size, stride))
        return found


def _is_transposed(first: _Dimension, rest: Sequence[_Dimension]) -> bool:
    return first.stride == 1 and len(rest) == 1 and rest[0].stride >= first.size


def _extent(dimensions: Sequence[_Dimension]) -> int:
    if any(one.size == 0 for one in dimensions):
        return 0
    return 1 + sum((one.size - 1) * one.stride for one in dimensions)


def _count(dimensions: Sequence[_Dimension]) -> int:
    return math.prod(one.size for one in dimensions)
