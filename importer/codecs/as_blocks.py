"""Integers of the store as GGML's blocks, where these say the same: codes stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from importer.codecs.base import (
    Decoder,
    Encoded,
    KernelSpec,
    Part,
    Runtime,
    Shape,
    Span,
)
from importer.codecs.ggml.types import NAMED
from importer.codecs.grouped import Grouped
from importer.codecs.registry import stored_type
from importer.codecs.spec import Mode
from importer.codecs.views.rotated import Rotated
from importer.codecs.views.view import View
from store.fs import Buffer
from store.tensorblob import WEIGHT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NIBBLE: Final = 4
KINDS: Final = {4: ("Q4_0", "Q4_1"), 5: ("Q5_0", "Q5_1"), 8: ("Q8_0",)}
"""Types of blocks by the bits of their codes, the smaller one first."""


def affine_codec(decoder: Decoder) -> Grouped | None:
    """Return the codec of integers that a decoder reads, whatever the order of rows."""
    inner = decoder.inner if isinstance(decoder, Rotated) else decoder
    spec = stored_type(inner)
    if spec is None or spec.mode is not Mode.AFFINE or not isinstance(inner, Grouped):
        return None
    return inner


@dataclass(frozen=True, slots=True)
class AsBlocks(View):
    """Reads integers of the store that blocks of GGML hold exactly.

    Attributes:
        inner: reads the values: of `affine_codec`.
        kind: name of the blocks' type.
    """

    kind: str

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values."""
        return self.inner.decode(arrays, shape, elements, runtime)


@dataclass(frozen=True, slots=True)
class AffineBlocks:
    """Moves codes, scales and biases into blocks.

    Attributes:
        decoder: tells which arrays, and which blocks.
    """

    decoder: AsBlocks

    @property
    def is_lossless(self) -> bool:
        """Return True: codes, scales and biases stay."""
        return True

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, an array of bytes."""
        *outer, columns = shape
        row = NAMED[self.decoder.kind].row_nbytes(columns)
        return (Part(WEIGHT, "U8", (*outer, row)),)

    def unit(self, shape: Shape) -> int:
        """Return the elements of a group, or of the rows that move together."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return codes, scales and biases."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return whole blocks."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.ggml.affine_blocks import made, made_of_pairs  # noqa: PLC0415

        codec, kind = affine_codec(self.decoder.inner), self.decoder.kind
        assert codec is not None, "an affine codec was found before"
        numbers = scales_of(codec, arrays[1:])
        if codec.spec.bits == _NIBBLE:
            blocks = made_of_pairs(kind, np.frombuffer(arrays[0], "u1"), *numbers)
        else:
            blocks = made(kind, codes_of(codec, arrays[0]), *numbers)
        data: Buffer = blocks.reshape(-1).data
        if isinstance(self.decoder.inner, Rotated):
            row = NAMED[kind].row_nbytes(shape[-1])
            reader = self.decoder.inner.of_bytes(row)
            assert reader is not None, "rows of blocks are bytes"
            begin, end = (place // shape[-1] * row for place in (elements.start, elements.stop))
            data = reader.decode([data], (*shape[:-1], row), range(begin, end), runtime)
        return Encoded((data,))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return none."""
        return ()


def codes_of(codec: Grouped, words: Buffer) -> npt.NDArray[np.uint8]:
    """Return the codes of whole groups, of shape (groups, group size)."""
    import numpy as np  # noqa: PLC0415 - a plan needs no numpy

    from importer.codecs.reference.packing import unpack  # noqa: PLC0415

    bits, size = codec.spec.bits, codec.spec.group_size
    packed = np.frombuffer(words, "<u4").reshape(-1, size * bits // 32)
    return unpack(packed, bits)


def scales_of(codec: Grouped, arrays: Sequence[Buffer]) -> list[npt.NDArray[Any]]:
    """Return the scales of groups, and their biases, as float32."""
    import numpy as np  # noqa: PLC0415 - a plan needs no numpy

    from importer.codecs.reference.floats import STORED, widen  # noqa: PLC0415

    dtype = codec.value_dtype
    return [widen(np.frombuffer(one, STORED[dtype]), dtype) for one in arrays]
