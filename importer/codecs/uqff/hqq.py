"""HQQ as mistral.rs stores it: groups that lie across the tensor, not along its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

BITS: Final = (1, 2, 4, 8)
"""Of codes that fill bytes; those of 3 bits are packed otherwise, and nobody writes them."""
SCALES: Final = ("F32", "F16", "BF16")
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Hqq:
    """Reads packed codes, scales and zero points: a value is `(code - zero) * scale`.

    All elements in row-major order are a matrix of `group_size` rows, whatever the shape of
    the tensor. Each of its columns is a group, with a scale and a zero point.

    Attributes:
        dtype: of scales and zero points, in which mistral.rs computes.
    """

    bits: int
    group_size: int
    dtype: str

    def __str__(self) -> str:
        return f"hqq int{self.bits}/{self.group_size}"

    @property
    def value_dtype(self) -> str:
        """The dtype of the scales."""
        return self.dtype

    @property
    def packed_rows(self) -> int:
        """Rows of bytes that the codes of all rows are packed in."""
        return self.group_size * self.bits // _BYTE

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1: what codes share a byte with is far away."""
        return 1

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of the codes, then the scales and zero points of their columns."""
        width = self._width(shape)
        codes = _around(elements, width * self.packed_rows, 1)
        small = _around(elements, width, ITEM_BITS[self.dtype] // _BYTE)
        return codes, small, small

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,
        elements: range,
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the values, row of groups by row of groups."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import floats, hqq  # noqa: PLC0415

        kind = floats.STORED[self.dtype]
        packed = np.frombuffer(arrays[0], np.uint8)
        scales, zeros = (np.frombuffer(array, kind) for array in arrays[1:])
        width, rows = self._width(shape), self.packed_rows
        values = np.empty(len(elements), kind)
        start = elements.start
        while start < elements.stop:
            row, column = divmod(start, width)
            end = min((row + 1) * width, elements.stop)
            count = end - start
            code = _place(elements, width * rows, start)
            one = _place(elements, width, column)
            values[start - elements.start : end - elements.start] = hqq.decode(
                hqq.unpack(packed[code : code + count], row, rows, self.bits),
                scales[one : one + count],
                zeros[one : one + count],
                self.dtype,
            )
            start = end
        return values.view(np.uint8).data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    def _width(self, shape: Shape) -> int:
        return math.prod(shape) // self.group_size


# An array that a range of elements goes through again and again: element e is at e % period.
# What is read of it is the whole array, one piece, or where the range goes past its end two of
# one length, at its beginning and at its end: never more than twice what is needed.


def _around(elements: range, period: int, size: int) -> Span:
    """Return the bytes that some elements need of an array of `period` elements."""
    count = len(elements)
    if count >= period:
        return Span(0, period * size)
    begin = elements.start % period
    if begin + count <= period:
        return Span(begin * size, count * size)
    length = max(period - begin, begin + count - period)
    if 2 * length > period:
        return Span(0, period * size)
    return Span(0, 2 * length * size, 2, (period - length) * size)


def _place(elements: range, period: int, element: int) -> int:
    """Return where an element is in the bytes of `_around`, in elements."""
    span = _around(elements, period, 1)
    place = element % period
    if span.runs == 1:
        return place - span.begin
    return place if place < span.run else place - span.stride + span.run
