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
FLOATS: Final = frozenset({"F32", "F16", "BF16"})
"""The dtypes of values that F32 holds exactly."""


@dataclass(frozen=True, slots=True)
class Scaled(View):
    """Reads an array and an array of one F32, and multiplies; the result is F32.

    llama.cpp has the products of a matrix multiplied by the tensor of the same name that ends
    in `.scale`: its converter writes one for NVFP4, its graphs take one for every type.

    Attributes:
        inner: reads the array, and gives F32, F16 or BF16.
        factor: reads the number, and gives F32.
    """

    factor: Decoder
    value_dtype: ClassVar[str] = _DTYPE

    def __post_init__(self) -> None:
        assert self.inner.value_dtype in FLOATS, "whoever joins them has looked"
        assert self.factor.value_dtype == _DTYPE, "whoever joins them has looked"

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the inner decoder needs, and the factor."""
        return (*self.inner.spans(shape, elements), *self.factor.spans(_ONE, range(1)))

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the products."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of, to_f32  # noqa: PLC0415

        *own, factor = arrays
        found = self.inner.decode(own, shape, elements, runtime)
        values = to_f32(found, self.inner.value_dtype).view("<f4")
        number = self.factor.decode((factor,), _ONE, range(1), runtime)
        return bytes_of(values * np.frombuffer(number, "<f4")[0])
