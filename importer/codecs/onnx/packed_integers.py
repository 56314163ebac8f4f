"""Integers of 2 or 4 bits, several in a byte, the first one in its lowest bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import Decoder, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.views.layout import Layout
from store.fs import Buffer

_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class PackedIntegers(Layout):
    """Reads integers that are packed without regard to rows, as integers of 8 bits.

    Attributes:
        value_dtype: I8, where the highest bit is a sign, or U8.
        bits: of an integer: 2 or 4.
        packed: reads the bytes.
    """

    value_dtype: str
    bits: int
    packed: Decoder

    def unit(self, shape: Shape) -> int:
        """Return the integers of the bytes that can be read alone."""
        return self._each * self.packed.unit((self._nbytes(shape),))

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of the integers; the last one may have room for more."""
        return self.packed.spans((self._nbytes(shape),), self._bytes(elements))

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the integers, a byte each."""
        from importer.codecs.reference.packing import unpack_low_first  # noqa: PLC0415 - numpy

        places = self._bytes(elements)
        data = self.packed.decode(arrays, (self._nbytes(shape),), places, runtime)
        codes = unpack_low_first(data, self.bits)[: len(elements)]
        if self.value_dtype == "I8":
            spare = _BYTE - self.bits
            return ((codes << spare).view("i1") >> spare).view("u1").data
        return codes.data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    @property
    def _each(self) -> int:
        return _BYTE // self.bits

    def _nbytes(self, shape: Shape) -> int:
        return -(-math.prod(shape) // self._each)

    def _bytes(self, elements: range) -> range:
        return range(elements.start // self._each, -(-elements.stop // self._each))
