"""Matrices of packed values the other way around: `[out, in]` becomes `[in, out]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import Runtime, Shape, Span
from importer.codecs.views.view import View
from store.fs import Buffer

_TILE: Final = 1 << 18
"""Elements that are decoded together, about."""


@dataclass(frozen=True, slots=True)
class Turned(View):
    """Reads matrices of rows in tiles of whole columns, whose groups lie along the rows.

    As `Transposed`, of a decoder that may have several arrays: codes and scales.

    Attributes:
        inner: reads the matrices, one after the other.
        rows: of a matrix as it is stored.
        width: of a row.
    """

    rows: int
    width: int

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return the elements of a tile: of whole groups, a divisor of all columns."""
        group = self.inner.unit((1, self.width))
        groups = self.width // group
        fitting = max(1, _TILE // max(group * self.rows, 1))
        most = max(n for n in range(1, min(fitting, groups) + 1) if groups % n == 0)
        return most * group * self.rows

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of some columns in each row, or of whole matrices."""
        first, columns, matrices = self._piece(elements)
        matrix = (self.rows, self.width)
        row = self.inner.spans(matrix, range(self.width))
        if matrices != 1:
            size = self.rows * self.width
            every = (size * first, size * (first + matrices))
            return self.inner.spans(shape, range(*every))
        runs = self.inner.spans(matrix, columns)
        return tuple(
            Span(first * self.rows * one.nbytes + run.begin, self.rows * run.nbytes, *rest)
            for one, run in zip(row, runs, strict=True)
            for rest in ((self.rows, one.nbytes),)
        )

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,
        runtime: Runtime,
    ) -> Buffer:
        """Return the values column by column."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of  # noqa: PLC0415

        first, columns, matrices = self._piece(elements)
        width = self.width if matrices != 1 else len(columns)
        whole = range(matrices * self.rows * width)
        values = self.inner.decode(arrays, (matrices * self.rows, width), whole, runtime)
        if not whole:
            return values
        item = memoryview(values).nbytes // len(whole)
        bits = np.frombuffer(values, f"u{item}").reshape(matrices, self.rows, width)
        made = bytes_of(bits.swapaxes(1, 2))
        begin = elements.start - first * self.rows * self.width if matrices != 1 else 0
        return memoryview(made)[begin * item : (begin + len(elements)) * item]

    def _piece(self, elements: range) -> tuple[int, range, int]:
        """Return the first matrix of a piece, its columns there, and how many matrices."""
        size = self.rows * self.width
        first, start = divmod(elements.start, size)
        last = -(-elements.stop // size)
        columns = range(start // self.rows, start // self.rows + len(elements) // self.rows)
        return first, columns, max(last - first, 0)
