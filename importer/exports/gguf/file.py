"""Put a GGUF file together: its head, and what fills the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
from importer.sources.roles import LeftOut


class Typed(NamedTuple):
    """A tensor of the file, and the type that it has there.

    Attributes:
        importance: of the columns of each of its matrices, or None where all count alike.
    """

    tensor: Tensor
    kind: GgmlType
    importance: tuple[bytes, ...] | None = None


def assemble(
    name: str,
    metadata: Metadata,
    typed: Sequence[Typed],
    left_out: tuple[LeftOut, ...],
) -> WritePlan:
    """Return the plan of a file.

    Args:
        name: of the file, without its ending.
        metadata: its keys, in order.
        typed: its tensors, in order.
        left_out: what the file does not have.
    """
    infos = [
        TensorInfo(one.name, one.shape, kind.number, _nbytes(one, kind))
        for one, kind, _ in typed
    ]
    head = encode_head(metadata, infos)
    offset = len(head)
    pieces: list[Piece] = []
    rows: list[Row] = []
    known: list[tuple[int, bytes]] = []
    path = f"{name}.gguf"
    for what, info in zip(typed, infos, strict=True):
        one, kind, _ = what
        pieces += _pieces(what, offset, info.nbytes)
        rows.append(Row(one.name, one.shape, one.before, kind.name, path, info.nbytes))
        if one.data:
            known.append((offset, one.data))
        if gap := padded(info.nbytes) - info.nbytes:
            known.append((offset + info.nbytes, bytes(gap)))
        offset += padded(info.nbytes)
    file = ExportFile(path, offset, head, tuple(known))
    rows.sort(key=lambda row: row.name)
    return WritePlan((file,), tuple(pieces), tuple(rows), left_out, is_file=True)


def _nbytes(tensor: Tensor, kind: GgmlType) -> int:
    return math.prod(tensor.shape[:-1]) * kind.row_nbytes(tensor.shape[-1])


def _pieces(typed: Typed, offset: int, nbytes: int) -> Iterator[Piece]:
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
        yield Piece(tensor.name, shape, member.extents, transcoder, 0, places)


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
    if str(decoder) == kind.name and has_blocks(decoder):
        return transcoder_for(None, decoder)
    if kind.name == "MXFP4" and (moved := mxfp4_moved(decoder)) is not None:
        return Mxfp4Blocks(moved)
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


def mxfp4_moved(decoder: Decoder) -> CopyParts | Repack | None:
    """Return what gives codes and scales of MXFP4 as the store has them, or None."""
    spec = stored_type(decoder)
    if spec is None or spec.mode is not Mode.MXFP4:
        return None
    found = transcoder_for(spec, decoder)
    return found if isinstance(found, CopyParts | Repack) else None
