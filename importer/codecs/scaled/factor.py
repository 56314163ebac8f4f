"""Values that a number of the whole tensor is a factor of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from importer.codecs.base import Decoder, Runtime, Shape, Span
from importer.codecs.views.view import View
from store.fs import Buffer

_DTYPE: Final = "F32"
_ONE: Final = (1,)


@dataclass(frozen=True, slots=True)
class Scaled(View):
    """Reads an array and an array of one F32, and multiplies; the result is F32.

    llama.cpp has the products of a matrix in NVFP4 multiplied by the tensor of the same name
    that ends in `.scale`.

    Attributes:
        inner: reads the array, and gives F32.
        factor: reads the number, and gives F32.
    """

    factor: Decoder
    value_dtype: ClassVar[str] = _DTYPE
    is_plain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        assert self.inner.value_dtype == _DTYPE, "blocks are decoded to F32"
        assert self.factor.value_dtype == _DTYPE, "whoever joins them has looked"

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the inner decoder needs, and the factor."""
        return (*self.inner.spans(shape, elements), *self.factor.spans(_ONE, range(1)))

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the products."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of  # noqa: PLC0415

        *own, factor = arrays
        values = np.frombuffer(self.inner.decode(own, shape, elements, runtime), "<f4")
        number = self.factor.decode((factor,), _ONE, range(1), runtime)
        return bytes_of(values * np.frombuffer(number, "<f4")[0])
