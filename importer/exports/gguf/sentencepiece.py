"""The vocabulary of a tokenizer.model, which SentencePiece wrote.

Source: sentencepiece_model.proto: pieces are field 1 of the model, with text, score and type as
fields 1 to 3. Field 2 is the trainer's, with the kind of model as field 3; field 3 is the
normalizer's, with the table of characters, the prefix and the blanks as fields 2 to 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from importer.exports.gguf.documents import SENTENCEPIECE, bad
from importer.formats.gguf_names.vocabulary import LIMIT_TOKENS, Kind
from importer.formats.onnx.wire import FIXED_32, LENGTH, VARINT, Span, Wire
from store.errors import InputError

_PIECE: Final = 1
_TEXT: Final = 1
_SCORE: Final = 2
_TYPE: Final = 3
_TRAINER: Final = 2
_NORMALIZER: Final = 3
_TABLE: Final = 2
_BLANKS: Final = 4
_BPE: Final = 2
_KINDS: Final = {
    1: Kind.NORMAL,
    2: Kind.UNKNOWN,
    3: Kind.CONTROL,
    4: Kind.NORMAL,  # user-defined ones, which the converter takes for normal
    5: Kind.UNUSED,
    6: Kind.BYTE,
}


class Token(NamedTuple):
    """A token of a vocabulary.

    Attributes:
        score: the higher, the sooner two neighbors become it.
    """

    text: str
    score: float
    kind: Kind


class Normalizer(NamedTuple):
    """How a model treats a text before it cuts it.

    Attributes:
        merges: whether it cuts by merging pairs, and not by likelihood.
        table: of characters and what they become, as it is stored.
        adds_prefix: whether a text gets a blank before it.
        removes_blanks: whether of several blanks one is left.
    """

    merges: bool = False
    table: bytes = b""
    adds_prefix: bool = True
    removes_blanks: bool = True


def read_pieces(data: bytes, path: str = SENTENCEPIECE) -> list[Token]:
    """Return the pieces of a model, by number.

    Raises:
        InputError: it is not one.
    """
    try:
        return list(_pieces(data))
    except InputError as error:
        bad(path, f"is not a model of SentencePiece: {error}", error)


def read_normalizer(data: bytes, path: str) -> Normalizer:
    """Return how a model treats texts.

    Raises:
        InputError: it is not one.
    """
    wire = Wire(path, len(data), lambda begin, end: data[begin:end])
    found = Normalizer()
    while wire.position < len(data):
        tag = wire.tag(len(data))
        span = wire.value(tag, len(data))
        if tag.wire == LENGTH and tag.number in {_TRAINER, _NORMALIZER}:
            found = _treatment(wire, span, found, is_trainer=tag.number == _TRAINER)
        wire.seek(span.end)
    return found


def _treatment(wire: Wire, spec: Span, found: Normalizer, *, is_trainer: bool) -> Normalizer:
    """Return what a normalizer says, or of a trainer its kind."""
    wire.seek(spec.start)
    while wire.position < spec.end:
        tag = wire.tag(spec.end)
        span = wire.value(tag, spec.end)
        if tag.wire == VARINT:
            wire.seek(span.start)
            number = wire.varint(span.end)
            if is_trainer and tag.number == _TYPE:
                found = found._replace(merges=number == _BPE)
            elif not is_trainer and tag.number == _TYPE:
                found = found._replace(adds_prefix=bool(number))
            elif not is_trainer and tag.number == _BLANKS:
                found = found._replace(removes_blanks=bool(number))
        elif tag.wire == LENGTH and not is_trainer and tag.number == _TABLE:
            found = found._replace(table=wire.take(span))
        wire.seek(span.end)
    return found


def _pieces(data: bytes) -> Iterator[Token]:
    wire = Wire(SENTENCEPIECE, len(data), lambda begin, end: data[begin:end])
    count = 0
    while wire.position < len(data):
        tag = wire.tag(len(data))
        span = wire.value(tag, len(data))
        if tag.number == _PIECE and tag.wire == LENGTH:
            count += 1
            if count > LIMIT_TOKENS:
                bad(SENTENCEPIECE, f"has more than {LIMIT_TOKENS} pieces")
            yield _piece(wire, span)
        wire.seek(span.end)
    if not count:
        bad(SENTENCEPIECE, "has no pieces")


def _piece(wire: Wire, piece: Span) -> Token:
    text, score, kind = "", 0.0, 1
    wire.seek(piece.start)
    while wire.position < piece.end:
        tag = wire.tag(piece.end)
        span = wire.value(tag, piece.end)
        if tag.number == _TEXT and tag.wire == LENGTH:
            try:
                text = wire.take(span).decode()
            except UnicodeDecodeError as error:
                bad(SENTENCEPIECE, f"has a piece that is not UTF-8 at byte {span.start}", error)
        elif tag.number == _SCORE and tag.wire == FIXED_32:
            (score,) = struct.unpack("<f", wire.take(span))
        elif tag.number == _TYPE and tag.wire == VARINT:
            wire.seek(span.start)
            kind = wire.varint(span.end)
        wire.seek(span.end)
    if kind not in _KINDS:
        bad(SENTENCEPIECE, f"has a piece of the type {kind}, expected 1 to 6")
    return Token(text, score, _KINDS[kind])
