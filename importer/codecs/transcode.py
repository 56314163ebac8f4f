"""Transcoders: they move the bytes of stored arrays, or decode values and encode them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from importer.codecs.base import (
    Blocks,
    Codec,
    Coded,
    Decoder,
    Encoded,
    Encoder,
    KernelSpec,
    Operation,
    Part,
    Runtime,
    Shape,
    Span,
)
from importer.codecs.plain import Plain
from store.fs import Buffer
from store.tensorblob import WEIGHT


class _Unchanged:
    """What moves bytes and does not look at them."""

    __slots__ = ()
    is_lossless: Final = True

    def convert(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Encoded:
        """Return the bytes as they are."""
        return Encoded(tuple(arrays))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return none."""
        return ()


@dataclass(frozen=True, slots=True)
class Copy(_Unchanged):
    """Keeps the bytes of one plain array."""

    dtype: str

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, the tensor itself."""
        return (Part(WEIGHT, self.dtype, shape),)

    def unit(self, shape: Shape) -> int:
        """Return the elements of the fewest whole bytes."""
        return Plain(self.dtype).unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the elements' own bytes."""
        return Plain(self.dtype).spans(shape, elements)


@dataclass(frozen=True, slots=True)
class Recode:
    """Decodes values and encodes them anew.

    Attributes:
        decoder: decodes to the dtype that the encoder takes.
    """

    decoder: Decoder
    encoder: Encoder

    def __post_init__(self) -> None:
        given, taken = self.decoder.value_dtype, self.encoder.dtype
        assert given == taken, f"values of {given} for an encoder of {taken}"

    @property
    def is_lossless(self) -> bool:
        """Whether the encoder is; decoding always is."""
        return self.encoder.is_lossless

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the encoder's parts."""
        return self.encoder.parts(shape)

    def unit(self, shape: Shape) -> int:
        """Return the smallest number of elements that both can process alone."""
        return math.lcm(self.decoder.unit(shape), self.encoder.unit(shape))

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Decode, then encode."""
        values = self.decoder.decode(arrays, shape, elements, runtime)
        return self.encoder.encode(values, runtime)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the kernels of both."""
        decoding = self.decoder.kernels(Operation.DECODE)
        return (*decoding, *self.encoder.kernels(Operation.ENCODE))


@dataclass(frozen=True, slots=True)
class Gather:
    """Keeps the values of arrays that have them in another order or spelling.

    Attributes:
        decoder: gives values as they are stored: `importer.codecs.plain.is_plain`.
    """

    decoder: Decoder

    @property
    def is_lossless(self) -> bool:
        """Return True."""
        return True

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, the tensor itself."""
        return (Part(WEIGHT, self.decoder.value_dtype, shape),)

    def unit(self, shape: Shape) -> int:
        """Return the decoder's unit."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return the values."""
        return Encoded((self.decoder.decode(arrays, shape, elements, runtime),))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the decoder's."""
        return self.decoder.kernels(Operation.DECODE)


@dataclass(frozen=True, slots=True)
class KeepBlocks:
    """Keeps blocks that somebody else made, under the name of their type."""

    decoder: Blocks

    @property
    def is_lossless(self) -> bool:
        """Return True: they are what they were."""
        return True

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, an array of bytes."""
        return (Part(WEIGHT, "U8", self.decoder.stored_shape(shape)),)

    def unit(self, shape: Shape) -> int:
        """Return the elements of a block."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the blocks."""
        return self.decoder.spans(shape, elements)

    def convert(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Encoded:
        """Return the blocks as the store keeps them."""
        (blocks,) = arrays
        return Encoded((self.decoder.kept(blocks),))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return none."""
        return ()


class Parted(Decoder, Protocol):
    """A decoder of arrays that a blob has as its parts, as each codec is one."""

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the arrays of a tensor, in the order of the decoder's spans."""
        ...


@dataclass(frozen=True, slots=True)
class CopyParts(_Unchanged):
    """Keeps codes and scales that are stored as the codec stores them already."""

    codec: Parted

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the codec's parts."""
        return self.codec.parts(shape)

    def unit(self, shape: Shape) -> int:
        """Return the codec's unit."""
        return self.codec.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the codec would read."""
        return self.codec.spans(shape, elements)


@dataclass(frozen=True, slots=True)
class Repack:
    """Moves the codes of another format into words of the store, with their scales.

    Attributes:
        decoder: that reads the codes.
        codec: of the type that holds them exactly.
    """

    decoder: Coded
    codec: Codec

    @property
    def is_lossless(self) -> bool:
        """Return True: codes and values stay."""
        return True

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the codec's parts."""
        return self.codec.parts(shape)

    def unit(self, shape: Shape) -> int:
        """Return the smallest number of elements that both can process alone."""
        return math.lcm(self.decoder.unit(shape), self.codec.unit(shape))

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Move codes and scales."""
        return self.decoder.repack(arrays, shape, elements, runtime)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return those that the decoder reads codes with."""
        return self.decoder.kernels(Operation.DECODE)
