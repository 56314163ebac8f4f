"""Values of stacked matrices, each of which has an encoder of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from importer.codecs.base import (
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
from importer.codecs.transcode import Recode
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

_BYTE = 8


@dataclass(frozen=True, slots=True)
class RecodeStack:
    """Decodes values and encodes those of each matrix anew; as `Recode`, in other respects.

    Attributes:
        decoder: of a tensor of three dimensions, or of each of its matrices; of the dtype that
            the encoders take.
        encoders: one for each matrix, alike but for what they know of its columns.
    """

    decoder: Decoder
    encoders: tuple[Encoder, ...]

    @property
    def is_lossless(self) -> bool:
        """Whether the encoders are."""
        return all(encoder.is_lossless for encoder in self.encoders)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the encoders' parts."""
        assert len(self.encoders) == shape[0], f"{len(self.encoders)} encoders for {shape}"
        return self.encoders[0].parts(shape)

    def unit(self, shape: Shape) -> int:
        """Return the smallest number of elements that all can process alone."""
        units = (encoder.unit(shape[1:]) for encoder in self.encoders)
        return math.lcm(self.decoder.unit(shape), *units)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Decode, then encode what is of each matrix."""
        values = memoryview(self.decoder.decode(arrays, shape, elements, runtime)).cast("B")
        size = ITEM_BITS[self.decoder.value_dtype] // _BYTE
        made = [
            self.encoders[number].encode(values[start * size : stop * size], runtime)
            for number, start, stop in _matrices(math.prod(shape[1:]), elements)
        ]
        if len(made) == 1:
            return made[0]
        columns = zip(*(encoded.parts for encoded in made), strict=True)
        return Encoded(
            tuple(b"".join(column) for column in columns),
            sum(encoded.nonfinite for encoded in made),
        )

    def apart(self) -> tuple[Recode, ...]:
        """Return what makes each of the matrices, where they are stored apart."""
        return tuple(Recode(self.decoder, encoder) for encoder in self.encoders)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the kernels of the decoder, and each of the encoders' once."""
        specs = [
            spec for encoder in self.encoders for spec in encoder.kernels(Operation.ENCODE)
        ]
        return (*self.decoder.kernels(Operation.DECODE), *dict.fromkeys(specs))


def _matrices(size: int, elements: range) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each matrix, and where its elements begin and end in the range."""
    start = elements.start
    # Also of no elements: the parts are those of an encoder.
    while start < elements.stop or start == elements.start:
        number = start // max(size, 1)
        stop = min(elements.stop, (number + 1) * size)
        yield number, start - elements.start, stop - elements.start
        if start == stop:
            return
        start = stop
