"""Values as they are, one after the other, in a dtype of safetensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from importer.codecs.base import Decoder, KernelSpec, Operation, Runtime, Shape, Span
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Plain:
    """Reads one array whose elements are the tensor's."""

    value_dtype: str
    is_plain: ClassVar[bool] = True

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1, or for elements smaller than a byte as many as fill whole bytes."""
        return _BYTE // math.gcd(_BYTE, ITEM_BITS[self.value_dtype])

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the elements' own bytes."""
        bits = ITEM_BITS[self.value_dtype]
        begin, end = elements.start * bits // _BYTE, elements.stop * bits // _BYTE
        return (Span(begin, end - begin),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the bytes as they are."""
        (values,) = arrays
        return values

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()


def is_plain(decoder: Decoder) -> bool:
    """Return whether a decoder gives values as they are stored, in whatever order.

    It says so itself: `is_plain`.
    """
    return bool(getattr(decoder, "is_plain", False))
