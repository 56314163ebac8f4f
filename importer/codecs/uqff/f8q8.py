"""F8Q8 of mistral.rs: blocks of 32 bytes with signs, and a scale of 8 bits before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from store.fs import Buffer

BLOCK: Final = 32
"""Elements of a block; a tensor's last one may be filled up with zeros."""
BLOCK_BYTES: Final = 33
_LARGEST: Final = 416
"""A block's scale is a fraction of this: what the crate float8 0.7.0 calls the largest number
of E4M3, which is 448."""


@dataclass(frozen=True, slots=True)
class F8Q8:
    """Reads blocks of all elements in row-major order; rows may begin inside one.

    Source: `BlockF8Q8` in mistralrs-quant/src/f8q8/mod.rs of mistral.rs 0.9.5.
    """

    value_dtype: str = field(default="F32", init=False)

    def __str__(self) -> str:
        return "f8q8"

    def unit(self, shape: Shape) -> int:
        """Return the elements of a block, or those of which it and the tensor are multiples."""
        return math.gcd(BLOCK, math.prod(shape))

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the whole blocks that the elements are in."""
        first, last = elements.start // BLOCK, -(-elements.stop // BLOCK)
        count = last - first if len(elements) else 0
        return (Span(first * BLOCK_BYTES, count * BLOCK_BYTES),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the values."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.minifloats import E4M3_VALUES  # noqa: PLC0415

        blocks = np.frombuffer(arrays[0], np.uint8).reshape(-1, BLOCK_BYTES)
        scales = E4M3_VALUES[blocks[:, 0]] / np.float32(_LARGEST)
        values = blocks[:, 1:].view(np.int8) * scales[:, None]
        start = elements.start % BLOCK
        return values.reshape(-1)[start : start + len(elements)].view(np.uint8).data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()
