"""Values of big-endian files: bytes of numbers in the other order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.spec import QuantSpec
from importer.codecs.views.layout import Layout
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

if TYPE_CHECKING:
    from importer.codecs.ggml.decoder import Ggml

FIELDS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "Q4_0": (0,),
        "Q8_0": (0,),
        "Q4_K": (0, 2),
        "Q6_K": (208,),
        "MXFP4": (),
        "NVFP4": (),
    }
)
"""Offsets in a block of its numbers of two bytes, for the types that the format's own program
for it (gguf-convert-endian of gguf-py 0.19.0) converts; nothing defines the others."""


@dataclass(frozen=True, slots=True)
class Swapped(Layout):
    """Reads one array whose elements are the tensor's, in big-endian order.

    Attributes:
        value_dtype: of whole bytes.
    """

    value_dtype: str

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1: elements are independent."""
        return 1

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the elements' own bytes."""
        item = ITEM_BITS[self.value_dtype] // 8
        return (Span(elements.start * item, len(elements) * item),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the bytes of each element in little-endian order."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        (data,) = arrays
        values = np.frombuffer(data, f">u{ITEM_BITS[self.value_dtype] // 8}")
        return values.byteswap().view("u1").data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()


@dataclass(frozen=True, slots=True)
class SwappedBlocks:
    """Reads the blocks of a big-endian file as those of a little-endian one.

    Attributes:
        blocks: reads the latter.
    """

    blocks: Ggml

    @property
    def value_dtype(self) -> str:
        """The dtype of the values."""
        return self.blocks.value_dtype

    def __str__(self) -> str:
        return str(self.blocks)

    def unit(self, shape: Shape) -> int:
        """Return the elements of a block."""
        return self.blocks.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the blocks of a range."""
        return self.blocks.spans(shape, elements)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values."""
        return self.blocks.decode((self.kept(arrays[0]),), shape, elements, runtime)

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the shape of the array."""
        return self.blocks.stored_shape(shape)

    def kept(self, blocks: Buffer) -> Buffer:
        """Return whole blocks in little-endian order."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        kind = self.blocks.type
        made = np.frombuffer(blocks, "u1").reshape(-1, kind.nbytes).copy()
        for at in FIELDS[kind.name]:
            made[:, [at, at + 1]] = made[:, [at + 1, at]]
        return made.reshape(-1).data

    def holds(self, shape: Shape) -> QuantSpec | None:
        """Return the type of the store that holds the codes, or None."""
        return self.blocks.holds(shape)

    def repack(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return whole blocks as the parts of the type that holds them."""
        return self.blocks.repack((self.kept(arrays[0]),), shape, elements, runtime)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return those of the blocks."""
        return self.blocks.kernels(operation)
