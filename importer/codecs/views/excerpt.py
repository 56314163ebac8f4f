"""Some values of an array, which follow each other in what a decoder reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import Decoder, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.plain import is_plain
from store.fs import Buffer


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Reads values from one on, of arrays in which they need not be neighbors.

    Attributes:
        inner: reads all values; it can begin wherever `first` is.
        whole: the shape that these have.
        first: the number of the first one that is read.
    """

    inner: Decoder
    whole: Shape
    first: int

    @property
    def value_dtype(self) -> str:
        """The dtype of the inner decoder's values."""
        return self.inner.value_dtype

    @property
    def is_plain(self) -> bool:
        """Whether the values are stored as they are."""
        return is_plain(self.inner)

    def unit(self, shape: Shape) -> int:
        """Return what divides the inner decoder's unit, and the place of what is read."""
        return math.gcd(self.inner.unit(self.whole), self.first, math.prod(shape))

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the bytes of some of the values."""
        return self.inner.spans(self.whole, self._moved(elements))

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,
        runtime: Runtime,
    ) -> Buffer:
        """Return some of the values."""
        return self.inner.decode(arrays, self.whole, self._moved(elements), runtime)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the inner decoder's."""
        return self.inner.kernels(operation)

    def __str__(self) -> str:
        return str(self.inner)

    def _moved(self, elements: range) -> range:
        return range(self.first + elements.start, self.first + elements.stop)
