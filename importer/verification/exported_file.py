"""Compare an export of one file, which is GGUF, with the model that it was made of."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from importer.events import Listener
from importer.exports.base import ExportFile, ExportOptions, Piece, WritePlan
from importer.exports.export import ExportRequest, decide
from importer.exports.gguf.types import FILE_TYPES
from importer.formats.gguf.header import Header, read_header
from importer.formats.gguf.metadata import Array, Value, read_array
from importer.sources.containers.gguf import read_file_header
from importer.sources.file import Extent, SourceFile, find, opened, read_bytes
from importer.sources.location import StoredModel
from importer.verification.compare import Comparison
from importer.verification.pieces import Wanted, differing
from store import Store
from store.findings import Finding, Problem

_NAME: Final = "general.name"
_FILE_TYPE: Final = "general.file_type"


def compare_file(
    store: Store, model: StoredModel, place: Path, *, threads: int, listen: Listener
) -> Comparison:
    """Compare every key and every tensor of a GGUF file with a stored model.

    The file itself tells which type it was asked for. The model's name in it does not count.

    Raises:
        NotFoundError: there is no such model.
        InputError: the file is malformed.
        UnsupportedError: the model cannot be exported so.
    """
    file = find(place.name, place)
    there = read_file_header(file)
    number = there.integer(_FILE_TYPE)
    kind = next((word for word, one in FILE_TYPES.items() if one.number == number), None)
    write = _planned(store, model, place, None)
    if not write.files[0].head and file.size == write.nbytes:
        return _comparison(
            model, write, there, [], _whole(write, file), threads=threads, listen=listen
        )
    if not write.files[0].head or _infos(_head_of(write)) != _infos(there):
        write = _planned(store, model, place, kind)
    (expected,) = write.files
    told = _head_of(write)
    findings = list(_keys_that_differ(told, there, expected, file))
    findings += _tensors_that_differ(told, there)
    wanted = list(_wanted(write, told, there, file))
    findings += _known_that_differ(expected, told, there, file)
    return _comparison(model, write, told, findings, wanted, threads=threads, listen=listen)


def _comparison(  # noqa: PLR0913 - as much as there is to tell
    model: StoredModel,
    write: WritePlan,
    told: Header,
    findings: list[tuple[str, str]],
    wanted: list[Wanted],
    *,
    threads: int,
    listen: Listener,
) -> Comparison:
    findings += differing(wanted, threads, listen)
    return Comparison(
        tuple(
            Finding(Problem.EXPORT, subject, message, (str(model.name),))
            for subject, message in sorted(dict.fromkeys(findings))
        ),
        (),
        len(told.tensors),
        len(write.files),
        sum(piece.source_nbytes for piece, _ in wanted),
        "export",
    )


def _planned(store: Store, model: StoredModel, place: Path, kind: str | None) -> WritePlan:
    request = ExportRequest(model, place, "gguf", ExportOptions(kind))
    return decide(request, store, place)[0].write


def _head_of(write: WritePlan) -> Header:
    (file,) = write.files
    return read_header("the plan", file.nbytes, lambda begin, end: file.head[begin:end])


def _infos(header: Header) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(one.name, one.kind.name, one.shape) for one in header.tensors]


def _whole(write: WritePlan, file: SourceFile) -> list[Wanted]:
    """Return the one piece of a file that is kept byte for byte."""
    return [(piece, (Extent(file, 0, file.size),)) for piece in write.pieces]


def _keys_that_differ(
    told: Header, there: Header, expected: ExportFile, file: SourceFile
) -> Iterator[tuple[str, str]]:
    def plain(begin: int, end: int) -> bytes:
        return expected.head[begin:end]

    with opened(file) as descriptor:
        for key in told.metadata.keys() | there.metadata.keys():
            mine, theirs = told.metadata.get(key), there.metadata.get(key)
            if mine is None or theirs is None:
                yield key, "is not in the export" if theirs is None else "is not of the model"
            elif isinstance(mine, Array) and isinstance(theirs, Array):
                given = read_array(mine, plain, len(expected.head), "the plan")
                found = read_array(
                    theirs, partial(read_bytes, file, descriptor), file.size, key
                )
                is_like = (mine.kind, mine.length) == (theirs.kind, theirs.length)
                if not is_like or any(map(operator.ne, given, found)):
                    yield key, "differs from the model"
            elif mine != theirs and key != _NAME:
                shown = theirs.value if isinstance(theirs, Value) else "a list"
                yield key, f"is {str(shown)[:80]}, which differs from the model"


def _tensors_that_differ(told: Header, there: Header) -> Iterator[tuple[str, str]]:
    mine = {one.name: (one.kind.name, one.shape) for one in told.tensors}
    theirs = {one.name: (one.kind.name, one.shape) for one in there.tensors}
    for name in mine.keys() | theirs.keys():
        if name not in theirs:
            yield name, "is not in the export"
        elif name not in mine:
            yield name, "is not of the model"
        elif mine[name] != theirs[name]:
            kind, shape = theirs[name]
            yield (
                name,
                f"is {kind} {list(shape)}, expected {mine[name][0]} {list(mine[name][1])}",
            )


def _wanted(
    write: WritePlan, told: Header, there: Header, file: SourceFile
) -> Iterator[Wanted]:
    """Yield each piece of a tensor that both have alike, with its place in the file."""
    moved = _moves(told, there)
    for piece in write.pieces:
        if (by := moved.get(piece.name)) is not None:
            yield piece, _extents(piece, by, file)


def _extents(piece: Piece, by: int, file: SourceFile) -> tuple[Extent, ...]:
    return tuple(Extent(file, begin + by, nbytes) for begin, nbytes in piece.places)


def _known_that_differ(
    expected: ExportFile, told: Header, there: Header, file: SourceFile
) -> Iterator[tuple[str, str]]:
    """Yield the tensors that the configuration tells, where they differ."""
    moved = _moves(told, there)
    places = {one.offset: one.name for one in told.tensors}
    with opened(file) as descriptor:
        for offset, data in expected.fixed:
            name = places.get(offset)
            if name in moved:
                begin = offset + moved[name]
                if read_bytes(file, descriptor, begin, begin + len(data)) != data:
                    yield name, "differs from the model"


def _moves(told: Header, there: Header) -> dict[str, int]:
    """Return by how many bytes each tensor that both have alike is elsewhere."""
    theirs = {one.name: one for one in there.tensors}
    return {
        one.name: theirs[one.name].offset - one.offset
        for one in told.tensors
        if one.name in theirs
        and (theirs[one.name].kind, theirs[one.name].shape) == (one.kind, one.shape)
    }
