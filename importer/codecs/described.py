"""Values stored with small arrays beside them that say what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from importer.codecs.base import (
    Coded,
    Decoder,
    Encoded,
    KernelSpec,
    Operation,
    Runtime,
    Shape,
    Span,
)
from importer.codecs.registry import type_held
from importer.codecs.spec import QuantSpec
from store.fs import Buffer


@dataclass(frozen=True, slots=True)
class Described:
    """Reads the first arrays as another decoder does; the last ones only say what they are.

    Where a file has such arrays, its header alone does not tell how to decode: they were read
    to make the decoder, and whoever keeps the arrays as they are needs them again.

    Attributes:
        decoder: of the values.
        sizes: bytes of each array that follows those of the decoder; some bytes each.
    """

    decoder: Decoder
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return str(self.decoder)

    @property
    def value_dtype(self) -> str:
        """The dtype of the values."""
        return self.decoder.value_dtype

    def unit(self, shape: Shape) -> int:
        """Return the unit of the decoder."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs, and the small arrays as a whole."""
        small = (Span(0, size) for size in self.sizes)
        return (*self.decoder.spans(shape, elements), *small)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values."""
        return self.decoder.decode(self._own(arrays), shape, elements, runtime)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernels of the decoder."""
        return self.decoder.kernels(operation)

    def holds(self, shape: Shape) -> QuantSpec | None:
        """Return the type of the store that holds the same codes, if the decoder knows one."""
        return type_held(self.decoder, shape)

    def repack(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return what the decoder makes as the parts of that type."""
        decoder = cast("Coded", self.decoder)
        return decoder.repack(self._own(arrays), shape, elements, runtime)

    def _own(self, arrays: Sequence[Buffer]) -> Sequence[Buffer]:
        return arrays[: len(arrays) - len(self.sizes)]
