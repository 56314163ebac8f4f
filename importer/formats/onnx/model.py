"""What an ONNX file holds: its tensors, and which of them are quantized weights."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Final, NamedTuple

from importer.formats.content import content_of, other_content
from importer.formats.onnx.graph import Graphs
from importer.formats.onnx.operators import OPS
from importer.formats.onnx.problems import malformed
from importer.formats.onnx.quantized import Quantized, find_quantized
from importer.formats.onnx.reader import Reader
from importer.formats.onnx.tensors import Tensor
from importer.formats.onnx.wire import LENGTH, VARINT, ReadRange, Span, Tag, Wire
from store.errors import InputError
from store.text import is_printable, printable

_HEAD: Final = 512
_BYTES: Final = (1 << 31) - 1
_NAMED: Final = 5
_FIRST_IR: Final = 3
_LAST_IR: Final = 64
_TEXTS: Final = frozenset({2, 3, 4})
_DOC: Final = 6
_LINES: Final = dict.fromkeys(map(ord, "\t\n\r"))
_BEGINNING: Final = frozenset({1, 5, *_TEXTS})
_AFTER: Final = frozenset({7, 8, 14, 20, 25, 26})


class Model(NamedTuple):
    """What a file holds.

    Attributes:
        tensors: by name, in the order of the file.
        quantized: weights that are several of them.
        notes: what the user should know, a sentence each.
    """

    tensors: Mapping[str, Tensor]
    quantized: tuple[Quantized, ...]
    notes: tuple[str, ...]


def is_onnx(head: bytes) -> bool:
    """Return whether a file is an ONNX model, by its first bytes.

    Protobuf has no magic number: a version of the format comes first, then text that says who
    wrote it, then the graph.
    """
    wire = Wire("", len(head), lambda start, end: head[start:end])
    try:
        first = wire.tag(len(head))
        version = wire.varint(len(head))
        if (first.number, first.wire) != (1, VARINT) or not _FIRST_IR <= version <= _LAST_IR:
            return False
        while wire.position < len(head):
            tag = wire.tag(len(head))
            if tag.number in _AFTER:
                return tag.wire == LENGTH
            if not _is_before_graph(tag, wire, head):
                return False
    except (InputError, UnicodeDecodeError):
        return False
    return wire.position > len(head)  # in an explanation, which may be long


def _is_before_graph(tag: Tag, wire: Wire, head: bytes) -> bool:
    """Return whether a field may come before the graph, and go on after it."""
    if (tag.number, tag.wire) == (_DOC, LENGTH):
        length, start = wire.varint(len(head)), wire.position
        wire.seek(start + length)
        return _is_text(head[start : start + length])
    if tag.number not in _BEGINNING:
        return False
    span = wire.value(tag, len(head))
    wire.seek(span.end)
    return tag.number not in _TEXTS or is_printable(head[span.start : span.end].decode())


def _is_text(data: bytes) -> bool:
    """Return whether the start of a text is printable, in any number of lines."""
    text = codecs.getincrementaldecoder("utf-8")().decode(data)  # a letter may be cut
    return is_printable(text.translate(_LINES))


def read_model(where: str, size: int, read: ReadRange) -> Model:
    """Read where the tensors of a file are, and no weight.

    Args:
        where: what to call the file in a message.
        size: of the file, in bytes.
        read: gives bytes of it.

    Raises:
        InputError: it is malformed or hostile.
        UnsupportedError: it is well-formed, but has tensors of a kind that is not read.
    """
    head = read(0, min(_HEAD, size))
    if content_of(head) is not None:
        raise other_content(where, head, "an ONNX model", "E_ONNX_CONTENT")
    if size > _BYTES:
        message = (
            f"it has {size} bytes, and protobuf ends at {_BYTES}: the data of larger models"
        )
        malformed(where, f"{message} is in files beside them", "E_LIMIT")
    reader = Reader(Wire(where, size, read))
    graphs = Graphs(reader, OPS)
    notes: list[str] = []
    graph: Span | None = None
    functions: list[Span] = []
    wanted = {"graph", "functions", "training_info"}
    for value in reader.fields("ModelProto", Span(0, size), wanted):
        if value.name == "graph":
            graph = value.span
            graphs.read_graph(graph)
        elif value.name == "functions":
            functions.append(value.span)
            reader.charge()
        else:
            reader.check(value)
            notes.append(f"{where}: left out what is there for training alone")
    if graph is None:
        malformed(where, "it has no graph, expected an ONNX model", "E_ONNX_CONTENT")
    for function in functions:
        graphs.read_function(function)
    if graphs.texts:
        notes.append(f"{where}: left out tensors of text: {_shown(graphs.texts)}")
    if graphs.others:
        shown = _shown(list(graphs.others))
        notes.append(f"{where}: left out tensors that are attributes of {shown}")
    quantized = tuple(find_quantized(graphs))
    return Model(graphs.tensors, quantized, tuple(dict.fromkeys(notes)))


def _shown(names: list[str]) -> str:
    shown = ", ".join(f"`{printable(name)}`" for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
