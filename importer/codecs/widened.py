"""Affine types with scales and biases of 16 bits, of which values are computed in F32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.grouped import Grouped, codec
from store.fs import Buffer

_WIDE = "F32"


@dataclass(frozen=True, slots=True)
class Widened:
    """Reads what a codec reads, and computes code * scale + bias in F32.

    The codec itself rounds the product and the sum to the dtype of the scales, as MLX does.
    Products are exact here, so that a value is rounded once.

    Attributes:
        codec: of an affine type, for values of BF16 or F16.
    """

    codec: Grouped

    def __str__(self) -> str:
        return str(self.codec)

    @property
    def value_dtype(self) -> str:
        """Return F32."""
        return _WIDE

    def unit(self, shape: Shape) -> int:
        """Return the codec's unit."""
        return self.codec.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the codec needs."""
        return self.codec.spans(shape, elements)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole groups."""
        from importer.codecs.reference import floats  # noqa: PLC0415 - it imports numpy

        words, *small = arrays
        dtype = self.codec.value_dtype
        widened = (floats.widen(floats.read(part, dtype), dtype) for part in small)
        wide = (part.view("u1").data for part in widened)
        return self._computing.decode((words, *wide), shape, elements, runtime)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return those of the type for values of F32."""
        return self._computing.kernels(operation)

    @property
    def _computing(self) -> Grouped:
        return codec(self.codec.spec, _WIDE)
