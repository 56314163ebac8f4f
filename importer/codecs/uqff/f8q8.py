"""F8Q8 of mistral.rs: blocks of 32 bytes with signs, and a scale of 8 bits before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Part, Runtime, Shape, Span
from store.fs import Buffer
from store.tensorblob import WEIGHT

BLOCK: Final = 32
"""Elements of a block; a tensor's last one may be filled up with zeros."""
BLOCK_BYTES: Final = 33


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

        from importer.codecs.reference import f8q8  # noqa: PLC0415

        blocks = np.frombuffer(arrays[0], np.uint8).reshape(-1, BLOCK_BYTES)
        values = f8q8.decode(blocks).reshape(-1)
        start = elements.start % BLOCK
        return values[start : start + len(elements)].view(np.uint8).data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()


@dataclass(frozen=True, slots=True)
class F8Q8Encoder:
    """Makes blocks of tensors that blocks fill."""

    dtype: str = field(default="F32", init=False)
    is_lossless: bool = field(default=False, init=False)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, the blocks."""
        return (Part(WEIGHT, "U8", (math.prod(shape) // BLOCK * BLOCK_BYTES,)),)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return the elements of a block."""
        return BLOCK

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:  # noqa: ARG002
        """Quantize a whole number of blocks."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import f8q8, floats  # noqa: PLC0415

        bits = floats.read(values, self.dtype)
        with np.errstate(all="ignore"):
            blocks = f8q8.encode(floats.widen(bits, self.dtype).reshape(-1, BLOCK))
        nonfinite = floats.count_nonfinite(bits, self.dtype)
        return Encoded((blocks.reshape(-1).data,), nonfinite)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()
