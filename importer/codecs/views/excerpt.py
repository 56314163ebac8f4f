"""Some values of an array, which follow each other in what a decoder reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import Runtime, Shape, Span
from importer.codecs.views.view import View
from store.fs import Buffer


@dataclass(frozen=True, slots=True)
class Excerpt(View):
    """Reads values from one on, of arrays in which they need not be neighbors.

    Attributes:
        inner: reads all values; it can begin wherever `first` is.
        whole: the shape that these have.
        first: the number of the first one that is read.
    """

    whole: Shape
    first: int

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

    def _moved(self, elements: range) -> range:
        return range(self.first + elements.start, self.first + elements.stop)
