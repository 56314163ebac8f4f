"""Put GGUF files together: their heads, and what fills the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from importer.codecs.as_blocks import AffineBlocks, AsBlocks
from importer.codecs.base import Decoder, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.ggml.encoder import quantizer
from importer.codecs.ggml.from_mxfp4 import Mxfp4Blocks
from importer.codecs.ggml.types import GgmlType
from importer.codecs.plain import Plain
from importer.codecs.registry import has_blocks, stored_type, transcoder_for
from importer.codecs.spec import Mode
from importer.codecs.stacked import RecodeStack
from importer.codecs.transcode import Copy, CopyParts, Gather, Recode, Repack
from importer.codecs.views.every_other import EveryOther
from importer.exports.base import ExportFile, Piece, Row, WritePlan
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.tensors import Tensor
from importer.formats.gguf.writer import TensorInfo, encode_head, padded
from importer.sources.containers.gguf import read_file_header
from importer.sources.file import Extent, SourceFile
from importer.sources.roles import LeftOut


class Typed(NamedTuple):
    """A tensor of the file, and the type that it has there.

    Attributes:
        importance: of the columns of each of its matrices, or None where all count alike.
    """

    tensor: Tensor
    kind: GgmlType
    importance: tuple[bytes, ...] | None = None


class Content(NamedTuple):
    """What a file holds.

    Attributes:
        path: of the file in the export.
        metadata: its keys, in order.
        typed: its tensors, in order.
    """

    path: str
    metadata: Metadata
    typed: Sequence[Typed]


class Copied(NamedTuple):
    """A file that is there already, and stays what it is."""

    path: str
    source: SourceFile


def assemble(
    contents: Sequence[Content | Copied], left_out: tuple[LeftOut, ...], *, is_file: bool
) -> WritePlan:
    """Return the plan of an export.

    Args:
        contents: of its files.
        left_out: what they do not have.
        is_file: whether the one file is the export, and not a directory with it.
    """
    files: list[ExportFile] = []
    pieces: list[Piece] = []
    rows: list[Row] = []
    for number, one in enumerate(sorted(contents, key=lambda one: one.path)):
        make = _copied if isinstance(one, Copied) else _made
        file, filled, told = make(one, number)  # type: ignore[arg-type]  # each of its kind
        files.append(file)
        pieces += filled
        rows += told
    rows.sort(key=lambda row: row.name)
    return WritePlan(tuple(files), tuple(pieces), tuple(rows), left_out, is_file=is_file)


def infos_of(typed: Sequence[Typed]) -> list[TensorInfo]:
    """Return the tensors of a file as its list has them."""
    return [
        TensorInfo(one.name, one.shape, kind.number, _nbytes(one, kind))
        for one, kind, _ in typed
    ]


def _made(content: Content, number: int) -> tuple[ExportFile, list[Piece], list[Row]]:
    path, metadata, typed = content
    infos = infos_of(typed)
    head = encode_head(metadata, infos)
    offset = len(head)
    pieces: list[Piece] = []
    rows: list[Row] = []
    known: list[tuple[int, bytes]] = []
    for what, info in zip(typed, infos, strict=True):
        one, kind, _ = what
        pieces += _pieces(what, number, offset, info.nbytes)
        rows.append(Row(one.name, one.shape, one.before, kind.name, path, info.nbytes))
        if one.data:
            known.append((offset, one.data))
        if gap := padded(info.nbytes) - info.nbytes:
            known.append((offset + info.nbytes, bytes(gap)))
        offset += padded(info.nbytes)
    return ExportFile(path, offset, head, tuple(known)), pieces, rows


def _copied(copied: Copied, number: int) -> tuple[ExportFile, list[Piece], list[Row]]:
    path, source = copied
    whole = (Extent(source, 0, source.size),)
    piece = Piece(path, (source.size,), whole, Copy("U8"), number, ((0, source.size),))
    rows = [
        Row(one.name, one.shape, one.kind.name, one.kind.name, path, one.nbytes)
        for one in read_file_header(source).tensors
    ]
    return ExportFile(path, source.size), [piece], rows


def _nbytes(tensor: Tensor, kind: GgmlType) -> int:
    return math.prod(tensor.shape[:-1]) * kind.row_nbytes(tensor.shape[-1])


def _pieces(typed: Typed, file: int, offset: int, nbytes: int) -> Iterator[Piece]:
    tensor, kind, importance = typed
    if not tensor.members:
        return
    share = nbytes // len(tensor.members)
    for number, member in enumerate(tensor.members):
        places = ((offset + share * number, share),)
        own = importance
        if importance is not None and len(importance) == len(tensor.members):
            own = importance[number : number + 1]
        transcoder = transcoder_to(kind, member.decoder, own)
        shape = member.shape
        if member.turn is not None:
            *outer, last = shape
            shape = (
                (*outer, last // 2)
                if member.by_element
                else (*outer[:-1], outer[-1] // 2, last)
            )
            width = 1 if member.by_element else last
            transcoder = EveryOther(transcoder, member.turn, width)
        yield Piece(tensor.name, shape, member.extents, transcoder, file, places)


def transcoder_to(
    kind: GgmlType, decoder: Decoder, importance: tuple[bytes, ...] | None = None
) -> Transcoder:
    """Return what makes a type of GGML of arrays that a decoder reads.

    Args:
        kind: the type.
        decoder: of one matrix, or of a stack.
        importance: of the columns of each matrix, or None where all count alike.
    """
    dtype = decoder.value_dtype
    if (moving := _moving(kind, decoder)) is not None:
        return moving
    if kind.is_plain:
        if dtype == kind.name:
            return Copy(dtype) if isinstance(decoder, Plain) else Gather(decoder)
        return Recode(decoder, Cast(dtype, kind.name))
    if importance is None:
        return Recode(decoder, quantizer(kind.name, dtype))
    encoders = tuple(quantizer(kind.name, dtype, one) for one in importance)
    return (
        Recode(decoder, encoders[0]) if len(encoders) == 1 else RecodeStack(decoder, encoders)
    )


def _moving(kind: GgmlType, decoder: Decoder) -> Transcoder | None:
    """Return what keeps codes, or None where values are coded anew."""
    if str(decoder) == kind.name and has_blocks(decoder):
        return transcoder_for(None, decoder)
    if isinstance(decoder, AsBlocks) and decoder.kind == kind.name:
        return AffineBlocks(decoder)
    moved = mxfp4_moved(decoder) if kind.name == "MXFP4" else None
    return None if moved is None else Mxfp4Blocks(moved)


def mxfp4_moved(decoder: Decoder) -> CopyParts | Repack | None:
    """Return what gives codes and scales of MXFP4 as the store has them, or None."""
    spec = stored_type(decoder)
    if spec is None or spec.mode is not Mode.MXFP4:
        return None
    found = transcoder_for(spec, decoder)
    return found if isinstance(found, CopyParts | Repack) else None
