"""Values as protobuf writes numbers: of variable length, or one by one after their tags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.views.layout import Layout
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Varints(Layout):
    """Reads an array of varints, of which the lowest bits are the bits of a value.

    Values smaller than a byte share one, which is a varint.

    Attributes:
        starts: where every `step`th varint begins, in bytes from the first one.
        nbytes: of all of them.
        is_tagged: whether a tag, which is a varint of one byte, stands before each.
    """

    value_dtype: str
    starts: tuple[int, ...]
    nbytes: int
    step: int
    is_tagged: bool = False

    def unit(self, shape: Shape) -> int:
        """Return how many values are between two known places, or all of fewer."""
        return max(1, min(self.step * self._shared, math.prod(shape)))

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes from one known place to another."""
        begin = self._start(elements.start // self._shared)
        is_last = elements.stop == math.prod(shape)
        end = self.nbytes if is_last else self._start(elements.stop // self._shared)
        return (Span(begin, max(end - begin, 0)),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the lowest bits of each varint."""
        from importer.codecs.reference.varints import values  # noqa: PLC0415 - it imports numpy

        (data,) = arrays
        size = max(ITEM_BITS[self.value_dtype] // _BYTE, 1)
        return values(data, size, is_tagged=self.is_tagged).view("u1").data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    @property
    def _shared(self) -> int:
        """How many values are in one varint."""
        return max(_BYTE // ITEM_BITS[self.value_dtype], 1)

    def _start(self, number: int) -> int:
        return self.starts[number // self.step] if number else 0


@dataclass(frozen=True, slots=True)
class Tagged(Layout):
    """Reads an array of values of fixed size, each after a tag of one byte."""

    value_dtype: str

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1."""
        return 1

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the values with their tags."""
        size = 1 + ITEM_BITS[self.value_dtype] // _BYTE
        return (Span(elements.start * size, len(elements) * size),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the values without their tags."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        size = 1 + ITEM_BITS[self.value_dtype] // _BYTE
        rows = np.frombuffer(arrays[0], "u1").reshape(-1, size)[:, 1:]
        return np.ascontiguousarray(rows).reshape(-1).data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()
