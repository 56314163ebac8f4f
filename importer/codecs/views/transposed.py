"""Matrices that are stored the other way around: `[out, in]` becomes `[in, out]`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.views.woven import Woven
from store.fs import Buffer

_TILE: Final = 1 << 18
"""Elements that are decoded together, about: runs of some columns in every row."""
_LARGEST: Final = 1 << 24
"""Elements that are decoded together, at most: the fewest columns that can be, of all rows."""


@dataclass(frozen=True, slots=True)
class Transposed:
    """Reads matrices of rows in tiles of whole columns.

    The shape is `[…, columns, rows]` of what is stored as `[…, rows, columns]`, one matrix
    after the other in each array. A piece that ends in another matrix than it begins in is
    read as whole matrices.

    Attributes:
        matrix: which row of one matrix is of which array; its width is the columns.
    """

    matrix: Woven

    @property
    def value_dtype(self) -> str:
        """The dtype of all arrays' values; F32 where they differ."""
        return self.matrix.value_dtype

    @property
    def is_plain(self) -> bool:
        """Whether the values are stored as they are."""
        return self.matrix.is_plain

    def can_read(self, shape: Shape) -> bool:
        """Return whether such matrices fill the shape, and a tile fits in memory."""
        rows, columns = self.matrix.rows, self.matrix.width
        return (
            shape[-1] == rows
            and self.matrix.can_read((rows, columns))
            and self.matrix.is_by_row
            and math.prod(shape) % (rows * columns) == 0
            and self._columns() * rows <= _LARGEST
        )

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return the elements of a tile."""
        return self._columns() * self.matrix.rows

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the bytes of some columns in each row, or of whole matrices."""
        if not len(elements):
            return (Span(0, 0),) * len(self.matrix.inners)
        first, columns, matrices = self._piece(elements)
        spans = []
        for inner, rows in zip(self.matrix.inners, self._counts(), strict=True):
            width = self.matrix.width
            (row,) = inner.spans((rows, width), range(width))
            if matrices > 1:
                nbytes = matrices * rows * row.nbytes
                spans.append(Span(first * rows * row.nbytes, nbytes))
                continue
            (run,) = inner.spans((rows, width), columns)
            begin = first * rows * row.nbytes + run.begin
            spans.append(Span(begin, rows * run.nbytes, max(rows, 1), row.nbytes))
        return tuple(spans)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002
        elements: range,
        runtime: Runtime,
    ) -> Buffer:
        """Return the values column by column."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of  # noqa: PLC0415

        if not len(elements):
            return b""
        first, columns, matrices = self._piece(elements)
        width = self.matrix.width if matrices > 1 else len(columns)
        rows = self.matrix.rows
        whole = range(matrices * rows * width)
        woven = Woven(self.matrix.inners, self.matrix.patterns * matrices, width)
        values = woven.decode(arrays, (matrices * rows, width), whole, runtime)
        item = memoryview(values).nbytes // len(whole)
        bits = np.frombuffer(values, f"u{item}")
        made = bytes_of(bits.reshape(matrices, rows, width).swapaxes(1, 2))
        begin = elements.start - first * rows * self.matrix.width if matrices > 1 else 0
        return memoryview(made)[begin * item : (begin + len(elements)) * item]

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the inner decoders'."""
        return self.matrix.kernels(operation)

    def __str__(self) -> str:
        return str(self.matrix)

    def _counts(self) -> list[int]:
        """Return the rows that one matrix takes from each array."""
        counts = [0] * len(self.matrix.inners)
        for pattern in self.matrix.patterns:
            for strand in pattern.strands:
                counts[strand.array] += strand.rows * pattern.times
        return counts

    def _columns(self) -> int:
        """Return the columns of a tile: whole blocks, and a divisor of all columns."""
        width, rows = self.matrix.width, self.matrix.rows
        block = math.lcm(*(inner.unit((1, width)) for inner in self.matrix.inners))
        blocks = width // block
        fitting = max(1, _TILE // max(block * rows, 1))
        most = max(n for n in range(1, min(fitting, blocks) + 1) if blocks % n == 0)
        return most * block

    def _piece(self, elements: range) -> tuple[int, range, int]:
        """Return the first matrix of a piece, its columns there, and how many matrices."""
        rows, width = self.matrix.rows, self.matrix.width
        first, start = divmod(elements.start, rows * width)
        last = max(elements.start, elements.stop - 1) // (rows * width)
        columns = range(start // rows, start // rows + len(elements) // rows)
        return first, columns, last - first + 1
