"""No quantization: the source's bytes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import Encoded, Part, Shape
from store.fs import Buffer
from store.tensorblob import WEIGHT


@dataclass(frozen=True, slots=True)
class Plain:
    """Keeps a tensor as it is."""

    dtype: str

    @property
    def value_dtype(self) -> str:
        """The source's."""
        return self.dtype

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """One part, the tensor itself."""
        return (Part(WEIGHT, self.dtype, shape),)

    def row_bytes(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Bytes need no company."""
        return 1

    def encode(self, rows: memoryview) -> Encoded:
        """Give the bytes back, unseen."""
        return Encoded((rows,))

    def decode(self, parts: Sequence[Buffer]) -> Buffer:
        """Give the bytes back."""
        (rows,) = parts
        return rows
