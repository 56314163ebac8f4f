"""Downcasts: every value rounded to the nearest, ties to even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import Encoded, Part, Shape
from store.fs import Buffer
from store.tensorblob import WEIGHT
from store.tensorfile import ITEM_BITS

_BYTE = 8


@dataclass(frozen=True, slots=True)
class Cast:
    """Converts floats to BF16 or F16.

    Attributes:
        dtype: of the source.
        value_dtype: of the result, and of what `decode` gives.
    """

    dtype: str
    value_dtype: str

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """One part of another dtype."""
        return (Part(WEIGHT, self.value_dtype, shape),)

    def row_bytes(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Bytes of one element."""
        return ITEM_BITS[self.dtype] // _BYTE

    def encode(self, rows: memoryview) -> Encoded:
        """Round; finite values that become infinite are counted, others are as they were."""
        from importer.codecs.reference.cast import cast  # noqa: PLC0415 - it imports numpy

        bits, overflows = cast(rows, self.dtype, self.value_dtype)
        return Encoded((bits.view("u1").data,), overflows)

    def decode(self, parts: Sequence[Buffer]) -> Buffer:
        """Give the rounded values."""
        (rows,) = parts
        return rows
