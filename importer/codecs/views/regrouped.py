"""Columns whose order a format has changed, in whole runs of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from importer.codecs.base import Blocks, Runtime, Shape, Span
from importer.codecs.views.row_bytes import blocks_in, bytes_reader
from importer.codecs.views.view import View
from store.fs import Buffer


@dataclass(frozen=True, slots=True)
class Regrouper(View):
    """Reads rows `[run, group, columns]` as rows `[group, run, columns]`.

    Attributes:
        inner: reads the one array.
        groups: of runs.
        runs: of each group.
        columns: of a run.
    """

    groups: int
    runs: int
    columns: int

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.groups * self.runs * self.columns

    def can_read(self, shape: Shape) -> bool:
        """Return whether runs fill the rows, and rows can be decoded alone."""
        width = self.width
        return width > 0 and shape[-1] == width and width % self.inner.unit((1, width)) == 0

    @property
    def blocks_moved(self) -> Blocks | None:
        """The decoder of the blocks that are moved; None where some are of two runs."""
        is_aligned = self.columns % self.inner.unit((1, self.width)) == 0
        return blocks_in((self.inner,)) if is_aligned else None

    def of_bytes(self, row_bytes: int) -> Self | None:
        """Return the decoder of rows of bytes, if no block is in two runs."""
        inner = bytes_reader(self.inner, row_bytes)
        parts = self.groups * self.runs
        if inner is None or self.columns % self.inner.unit((1, self.width)):
            return None
        return replace(self, inner=inner, columns=row_bytes // parts)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return the elements of a row."""
        return self.width

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of the rows."""
        return self.inner.spans(self._matrix(shape), elements)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the rows, each run in its place."""
        from importer.codecs.reference.matrices import bytes_of, matrix_of  # noqa: PLC0415

        values = self.inner.decode(arrays, self._matrix(shape), elements, runtime)
        rows = matrix_of(values, self.value_dtype, self.value_dtype, self.width)
        parts = rows.reshape(-1, self.runs, self.groups, self.columns)
        return bytes_of(parts.swapaxes(1, 2))

    def _matrix(self, shape: Shape) -> Shape:
        return (math.prod(shape) // self.width, self.width)
