"""Rows, or elements, of which two tensors take turns: what one of them becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import Encoded, KernelSpec, Part, Runtime, Shape, Span, Transcoder
from store.fs import Buffer


@dataclass(frozen=True, slots=True)
class EveryOther:
    """Converts rows of two tensors that take turns, and keeps those of one.

    The shape is that of what is kept.

    Attributes:
        inner: converts the rows of both.
        turn: 0 or 1.
        width: elements that take turns as one: of a row, or 1.
    """

    inner: Transcoder
    turn: int
    width: int

    @property
    def is_lossless(self) -> bool:
        """Whether values stay what they are."""
        return self.inner.is_lossless

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the parts of the rows that are kept."""
        return self.inner.parts(shape)

    def unit(self, shape: Shape) -> int:
        """Return the elements of so many rows that both can be converted alone."""
        return math.lcm(self.inner.unit(self._both(shape)), 2 * self.width) // 2

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of both."""
        return self.inner.spans(self._both(shape), _twice(elements))

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Convert both, and keep one."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        made = self.inner.convert(arrays, self._both(shape), _twice(elements), runtime)
        turns = len(elements) // self.width
        kept = []
        for part in made.parts:
            bits = np.frombuffer(part, "u1").reshape(turns, 2, -1)
            kept.append(np.ascontiguousarray(bits[:, self.turn]).reshape(-1).data)
        return Encoded(tuple(kept), made.nonfinite)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return those of the transcoder."""
        return self.inner.kernels()

    def _both(self, shape: Shape) -> Shape:
        if self.width == 1:
            return (*shape[:-1], 2 * shape[-1])
        return (*shape[:-2], 2 * shape[-2], shape[-1])


def _twice(elements: range) -> range:
    return range(2 * elements.start, 2 * elements.stop)
