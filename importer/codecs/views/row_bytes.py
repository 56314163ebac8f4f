"""Rows of packed values as bytes, which can be moved without being decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from importer.codecs.base import Blocks, Decoder
from importer.codecs.plain import Plain

_BYTES: Final = Plain("U8")


def blocks_in(inners: Sequence[Decoder]) -> Blocks | None:
    """Return the one decoder of blocks that some decoders move whole rows of, or None."""
    found = {getattr(inner, "blocks_moved", inner) for inner in inners}
    one = found.pop() if len(found) == 1 else None
    return cast("Blocks", one) if hasattr(one, "stored_shape") else None


def bytes_reader(inner: Decoder, row_bytes: int) -> Decoder | None:
    """Return what reads rows of bytes in a decoder's order, or None if nothing does."""
    of_bytes = getattr(inner, "of_bytes", None)
    if of_bytes is not None:
        moved: Decoder | None = of_bytes(row_bytes)
        return moved
    return None if hasattr(inner, "can_read") else _BYTES
