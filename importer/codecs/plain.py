"""No quantization: the source's bytes as they are."""

from __future__ import annotations

from dataclasses import dataclass

from importer.codecs.base import Part, Shape
from store.fs import Buffer


@dataclass(frozen=True, slots=True)
class Plain:
    """Keeps a tensor as it is."""

    dtype: str

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """One part, the tensor itself."""
        return (Part("", self.dtype, shape),)

    def row_bytes(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Bytes need no company."""
        return 1

    def encode(self, rows: memoryview) -> tuple[Buffer, ...]:
        """Give the bytes back."""
        return (rows,)
