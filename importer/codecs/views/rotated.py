"""Heads of rotary attention whose rows one of two formats has in another order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from importer.codecs.base import Blocks, Runtime, Shape, Span
from importer.codecs.views.row_bytes import blocks_in, bytes_reader
from importer.codecs.views.view import View
from store.fs import Buffer

_LARGEST: Final = 1 << 24
"""Elements of a head, at most: they are decoded together."""


@dataclass(frozen=True, slots=True)
class Rotated(View):
    """Reads rows of which each head's two halves alternate, and puts the halves together.

    Or the other way: of halves that are together it lets the rows alternate.

    Rotary embeddings turn pairs of rows. Hugging Face's Llama pairs row `i` of a head with row
    `i + rows / 2`, and llama.cpp with its neighbor: of a head of 8 rows that are numbered as
    Hugging Face has them, a GGUF has 0 4 1 5 2 6 3 7. (`LlamaModel.permute` in llama.cpp's
    conversion/llama.py.)

    Attributes:
        inner: reads the one array.
        rows: of a head, an even number.
        width: elements of a row.
        alternates: whether the rows of the result alternate, and not those that are read.
    """

    rows: int
    width: int
    alternates: bool = False

    def can_read(self, shape: Shape) -> bool:
        """Return whether heads divide the rows, and one fits in bounded memory."""
        head = self.rows * self.width
        return (
            self.rows > 0
            and self.rows % 2 == 0
            and 0 < head <= _LARGEST
            and math.prod(shape) % head == 0
            and self.width % self.inner.unit((self.rows, self.width)) == 0
        )

    @property
    def blocks_moved(self) -> Blocks | None:
        """The decoder of the blocks that rows are of; None where there are no blocks."""
        return blocks_in((self.inner,))

    def of_bytes(self, row_bytes: int) -> Self | None:
        """Return the decoder that puts rows of bytes into the same order."""
        inner = bytes_reader(self.inner, row_bytes)
        return None if inner is None else replace(self, inner=inner, width=row_bytes)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return the elements of a head."""
        return self.rows * self.width

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of the heads."""
        return self.inner.spans(self._matrix(shape), elements)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the rows of each head, in the other order."""
        from importer.codecs.reference.matrices import bytes_of, matrix_of  # noqa: PLC0415

        dtype = self.value_dtype
        decoded = self.inner.decode(arrays, self._matrix(shape), elements, runtime)
        values = matrix_of(decoded, dtype, dtype, self.width)
        half = self.rows // 2
        inner = (2, half) if self.alternates else (half, 2)
        pairs = values.reshape(-1, *inner, self.width)
        return bytes_of(pairs.swapaxes(1, 2))

    def _matrix(self, shape: Shape) -> Shape:
        return (math.prod(shape) // self.width, self.width)
