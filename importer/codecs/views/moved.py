"""Blocks that somebody else made, whose rows are put into another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import (
    Blocks,
    Encoded,
    KernelSpec,
    Part,
    Runtime,
    Shape,
    Span,
)
from importer.codecs.transcode import KeepBlocks
from importer.codecs.views.regrouped import Regrouper
from importer.codecs.views.rotated import Rotated
from importer.codecs.views.woven import Woven
from store.fs import Buffer
from store.tensorblob import WEIGHT

Rearranged = Rotated | Woven | Regrouper
"""What moves whole blocks."""


@dataclass(frozen=True, slots=True)
class MoveBlocks(KeepBlocks):
    """Keeps blocks under the name of their type, in the order that a decoder has."""

    decoder: Rearranged  # type: ignore[assignment] # it has what is used of Blocks

    @property
    def is_lossless(self) -> bool:
        """Return True: they are what they were."""
        return True

    @property
    def _blocks(self) -> Blocks:
        found = self.decoder.blocks_moved
        assert found is not None, "blocks are moved"
        return found

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, an array of bytes."""
        return (Part(WEIGHT, "U8", self._blocks.stored_shape(shape)),)

    def unit(self, shape: Shape) -> int:
        """Return the elements of a row, or of the rows that move together."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the rows of each array."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return the rows in order."""
        blocks, width = self._blocks, self.decoder.width
        stored = blocks.stored_shape(shape)
        (row_bytes,) = blocks.stored_shape((width,))
        reader = self.decoder.of_bytes(row_bytes)
        assert reader is not None, "blocks are moved"
        begin, end = (place // width * row_bytes for place in (elements.start, elements.stop))
        kept = [blocks.kept(array) for array in arrays]
        return Encoded((reader.decode(kept, stored, range(begin, end), runtime),))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return none."""
        return ()
