"""Make Hugging Face's tensors of those that a GGUF file holds: the same bytes, read anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import Decoder, Shape
from importer.codecs.plain import is_plain
from importer.codecs.scaled.factor import FLOATS, Scaled
from importer.codecs.views.regrouped import Regrouper
from importer.codecs.views.rotated import Rotated
from importer.codecs.views.transposed import Transposed
from importer.codecs.views.undone import Undone
from importer.codecs.views.view import can_read
from importer.codecs.views.woven import Woven
from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.made import (
    Made,
    Piece,
    Regrouped,
    Turned,
    Weave,
    in_turn,
)
from importer.formats.gguf_names.model import Stored
from importer.formats.gguf_names.tensors import Apart, take_apart
from importer.sources.tensor import SourceTensor, StoredArray
from store.errors import UnsupportedError
from store.text import printable

_NAMED: Final = 5
"""Names that one note tells."""


class Renamed(NamedTuple):
    """The tensors of a GGUF file as Hugging Face has them.

    Attributes:
        tensors: each of some rows of arrays in the file.
        apart: what became of which tensor of the file.
        notes: what the user should know, a sentence each.
    """

    tensors: tuple[SourceTensor, ...]
    apart: Apart
    notes: tuple[str, ...]


def rename(facts: Facts, tensors: Sequence[SourceTensor]) -> Renamed:
    """Name the tensors of one model, and put their values into Hugging Face's order.

    Args:
        facts: the metadata of the file, or of the first of a split.
        tensors: of all files, one stored array each: plain, or U8 `[…, rows, bytes]` with the
            decoder of its blocks.

    Raises:
        InputError: metadata and shapes contradict each other.
        UnsupportedError: rows would be moved of which there are none, or a head or a tile of
            columns is too large to be decoded in memory; or a factor is not F32.
    """
    by_name = {tensor.own_name: tensor for tensor in tensors}
    stored = {
        name: Stored(tensor.shape, "" if is_plain(tensor.decoder) else str(tensor.decoder))
        for name, tensor in by_name.items()
    }
    apart = take_apart(facts, stored)
    made = tuple(_tensor(one, by_name, stored) for one in apart.made)
    return Renamed(made, apart, (*_notes(facts, apart), *_unmoved(made)))


def _unmoved(tensors: Sequence[SourceTensor]) -> Iterator[str]:
    """Yield a note about packed tensors whose order only decoding can change."""
    found = [tensor for tensor in tensors if not tensor.is_ours]
    if found:
        names = [tensor.name for tensor in found]
        yield (
            f"{_some(names)} are Hugging Face's only when they are decoded: where no type is "
            "asked for they stay as they are, under the names of the GGUF"
        )


def _tensor(
    made: Made, tensors: Mapping[str, SourceTensor], stored: Mapping[str, Stored]
) -> SourceTensor:
    sources = [tensors[piece.tensor] for piece in made.pieces]
    first, whole = sources[0], stored[made.pieces[0].tensor]
    name = f"{first.component}/{made.name}" if first.component else made.name
    arrays = tuple(
        _rows(_array_name(made, piece), piece, tensors, stored) for piece in made.pieces
    )
    factor = None
    if made.scale is not None:
        factor = _factor(first, tensors[made.scale.tensor])
        arrays += (_rows(_array_name(made, made.scale), made.scale, tensors, stored),)
    decoder = _decoder(made, [source.decoder for source in sources], whole.width, factor)
    if not can_read(decoder, made.shape):
        why = "there are none" if 0 in made.shape else "they, or its columns, are too large"
        raise UnsupportedError(
            f"`{first.file.path}`: the rows of `{printable(made.name)}` {list(made.shape)} "
            f"are to be put into another order, and cannot be: {why}",
            code="E_GGUF_LAYOUT",
        )
    return SourceTensor(name, made.shape, arrays, decoder, first.component)


def _array_name(made: Made, piece: Piece) -> str:
    """Return what an array is called where it stays as it is; GGUF's name if it is a part."""
    if made.scale is None and (made.layout is None or isinstance(made.layout, Turned)):
        return made.name
    return f"{piece.tensor}[{piece.first}:]" if piece.first else piece.tensor


def _rows(
    name: str,
    piece: Piece,
    tensors: Mapping[str, SourceTensor],
    stored: Mapping[str, Stored],
) -> StoredArray:
    """Return some rows of an array as an array of its own."""
    (array,) = tensors[piece.tensor].arrays
    rows = stored[piece.tensor].rows
    if piece.rows == rows:
        return array._replace(name=name)
    each = array.nbytes // max(rows, 1)
    columns = array.shape[1:] if len(array.shape) == 1 else array.shape[-1:]
    return array._replace(
        name=name,
        shape=(piece.rows, *columns),
        offset=array.offset + piece.first * each,
        nbytes=piece.rows * each,
    )


def _decoder(
    made: Made, inners: Sequence[Decoder], width: int, factor: Decoder | None
) -> Decoder:
    layout, inner = made.layout, inners[0]
    if isinstance(layout, Turned):
        inner = Rotated(inner, layout.rows, width)
    elif isinstance(layout, Regrouped):
        inner = Regrouper(inner, *layout)
    elif isinstance(layout, Weave):
        inner = _woven(made.shape, layout, inners, 1 if layout.is_by_element else width)
    if factor is not None:
        inner = Scaled(inner, factor)
    return inner if made.change is None else Undone(inner, made.change)


def _factor(matrix: SourceTensor, scale: SourceTensor) -> Decoder:
    expected = "F32" if matrix.dtype in FLOATS else "none beside integers or F64"
    if scale.dtype != expected:
        raise UnsupportedError(
            f"`{scale.file.path}`: `{printable(scale.name)}`, a factor of "
            f"`{printable(matrix.name)}`, is {scale.dtype}, expected {expected}",
            code="E_GGUF_SCALE",
        )
    return scale.decoder


def _woven(
    shape: Shape, layout: Weave, inners: Sequence[Decoder], width: int
) -> Woven | Transposed:
    turned = layout.turned or (0,) * len(inners)
    ready: list[Decoder] = [
        Rotated(inner, rows, width) if rows else inner
        for inner, rows in zip(inners, turned, strict=True)
    ]
    if layout.flipped is not None:
        # What is a row here is a column there.
        rows, columns = shape[-1], layout.patterns[0].strands[layout.flipped].rows
        matrix = Woven((ready[layout.flipped],), in_turn(rows, times=1), columns)
        ready[layout.flipped] = Transposed(matrix)
        width = rows
    woven = Woven(tuple(ready), layout.patterns, width)
    return Transposed(woven) if layout.is_transposed else woven


def _notes(facts: Facts, apart: Apart) -> list[str]:
    notes = []
    if not apart.variant:
        name = printable(facts.architecture) or "none"
        notes.append(
            f"Hugging Face's names of the architecture `{name}` are not known: the tensors "
            "keep those of the GGUF"
        )
    elif apart.unnamed:
        notes.append(
            f"{_some(apart.unnamed)} of the architecture `{facts.architecture}` have no known "
            "name of Hugging Face's, and keep that of the GGUF with the values that it has"
        )
    if apart.derived:
        notes.append(f"{_some(apart.derived)} are left out: config.json tells what is in them")
    for change in dict.fromkeys(made.change for made in apart.made if made.change):
        names = [made.name for made in apart.made if made.change is change]
        notes.append(
            f"`{printable(names[0])}` and {len(names) - 1} more were changed by the converter "
            f"({change}); changed back they are {change.error} what they were"
        )
    return notes


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"`{printable(name)}`" for name in names[:_NAMED]) + more
