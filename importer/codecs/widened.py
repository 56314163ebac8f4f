"""Affine types with scales and biases of 16 bits, of which values are computed in F32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape
from importer.codecs.grouped import Grouped, codec
from importer.codecs.views.view import View
from store.fs import Buffer

_WIDE: Final = "F32"


@dataclass(frozen=True, slots=True)
class Widened(View):
    """Reads what a codec reads, and computes code * scale + bias in F32.

    The codec itself rounds the product and the sum to the dtype of the scales, as MLX does.
    Products are exact here, so that a value is rounded once.

    Attributes:
        inner: a codec of an affine type, for values of BF16 or F16.
    """

    inner: Grouped
    value_dtype: ClassVar[str] = _WIDE

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole groups."""
        from importer.codecs.reference import floats  # noqa: PLC0415 - it imports numpy

        words, *small = arrays
        dtype = self.inner.value_dtype
        widened = (floats.widen(floats.read(part, dtype), dtype) for part in small)
        wide = (part.view("u1").data for part in widened)
        return self._computing.decode((words, *wide), shape, elements, runtime)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return those of the type for values of F32."""
        return self._computing.kernels(operation)

    @property
    def _computing(self) -> Grouped:
        return codec(self.inner.spec, _WIDE)
