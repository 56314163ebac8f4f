"""What the GGUF files of one model hold, beside what a plan of one file says."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from importer.exports.base import ExportFile, Piece
from importer.exports.gguf.split import PREFIX
from importer.formats.gguf.header import Header, TensorInfo
from importer.formats.gguf.metadata import Array, Value, read_array
from importer.sources.file import Extent, SourceFile, opened, read_bytes
from importer.verification.pieces import Wanted

NOT_THERE: Final = "is not in the export"
NOT_OURS: Final = "is not of the model"
OTHER: Final = "differs from the model"
_NAME: Final = "general.name"
_COUNT: Final = f"{PREFIX}count"


class Part(NamedTuple):
    """A file that is there: all of a model, or one of a split."""

    file: SourceFile
    header: Header


class Told(NamedTuple):
    """What a plan says of a file.

    Attributes:
        file: with the bytes that are known.
        header: that these hold.
        pieces: that fill the rest.
    """

    file: ExportFile
    header: Header
    pieces: Sequence[Piece]


class Given(NamedTuple):
    """What was found of a file.

    Attributes:
        findings: subject and message of what keys and headers have otherwise.
        wanted: what is to be compared with weights.
    """

    findings: list[tuple[str, str]]
    wanted: list[Wanted]


class _Place(NamedTuple):
    info: TensorInfo
    file: SourceFile


def compare_contents(told: Told, parts: Sequence[Part]) -> Given:
    """Compare the files of one model with the one of a plan.

    Args:
        told: the plan's.
        parts: those of a split in order, or the one; all keys are in the first.
    """
    findings = list(_keys_that_differ(told, parts[0]))
    findings += _split_that_differs(parts)
    there: dict[str, _Place] = {}
    for part in parts:
        for one in part.header.tensors:
            if one.name in there:
                findings.append((one.name, "is in two files"))
            there.setdefault(one.name, _Place(one, part.file))
    findings += _tensors_that_differ(told.header, there)
    places = _alike(told.header, there)
    wanted = []
    for piece in told.pieces:
        if (place := places.get(piece.name)) is not None:
            file, by = place
            extents = (Extent(file, begin + by, nbytes) for begin, nbytes in piece.places)
            wanted.append((piece, tuple(extents)))
    findings += _known_that_differ(told, places)
    return Given(findings, wanted)


def _keys_that_differ(told: Told, first: Part) -> Iterator[tuple[str, str]]:
    expected, file = told.file, first.file

    def plain(begin: int, end: int) -> bytes:
        return expected.head[begin:end]

    with opened(file) as descriptor:
        ours, there = told.header.metadata, first.header.metadata
        for key in ours.keys() | there.keys():
            if key.startswith(PREFIX):
                continue
            mine, theirs = ours.get(key), there.get(key)
            if mine is None or theirs is None:
                yield key, NOT_THERE if theirs is None else NOT_OURS
            elif isinstance(mine, Array) and isinstance(theirs, Array):
                given = read_array(mine, plain, len(expected.head), "the plan")
                found = read_array(
                    theirs, partial(read_bytes, file, descriptor), file.size, key
                )
                is_like = (mine.kind, mine.length) == (theirs.kind, theirs.length)
                if not is_like or any(map(operator.ne, given, found)):
                    yield key, OTHER
            elif mine != theirs and key != _NAME:
                shown = theirs.value if isinstance(theirs, Value) else "a list"
                yield key, f"is {str(shown)[:80]}, which {OTHER}"


def _split_that_differs(parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """Yield what files of a split say about each other, where it is not so."""
    counts = {part.header.integer(_COUNT) for part in parts}
    if len(parts) == 1 and counts == {None}:
        return
    for count in sorted(counts - {len(parts)}, key=str):
        yield _COUNT, f"is {count}, but {len(parts)} files are there"
    total = sum(len(part.header.tensors) for part in parts)
    for number, part in enumerate(parts):
        for key, expected in (("no", number), ("tensors.count", total)):
            found = part.header.integer(f"{PREFIX}{key}")
            if found != expected:
                yield part.file.path, f"has {PREFIX}{key} {found}, expected {expected}"


def _tensors_that_differ(
    told: Header, there: Mapping[str, _Place]
) -> Iterator[tuple[str, str]]:
    ours = {one.name: one for one in told.tensors}
    for name in ours.keys() | there.keys():
        if name not in there:
            yield name, NOT_THERE
        elif name not in ours:
            yield name, NOT_OURS
        elif not _is_like(ours[name], there[name].info):
            mine, theirs = ours[name], there[name].info
            expected = f"expected {mine.kind.name} {list(mine.shape)}"
            yield name, f"is {theirs.kind.name} {list(theirs.shape)}, {expected}"


def _alike(told: Header, there: Mapping[str, _Place]) -> dict[str, tuple[SourceFile, int]]:
    """Return the file of each tensor that both have alike, and how many bytes further it is."""
    return {
        one.name: (found.file, found.info.offset - one.offset)
        for one in told.tensors
        if (found := there.get(one.name)) is not None and _is_like(one, found.info)
    }


def _known_that_differ(
    told: Told, places: Mapping[str, tuple[SourceFile, int]]
) -> Iterator[tuple[str, str]]:
    """Yield the tensors that the configuration tells, where they differ."""
    names = {one.offset: one.name for one in told.header.tensors}
    for offset, data in told.file.fixed:
        name = names.get(offset, "")
        if name in places:
            file, by = places[name]
            with opened(file) as descriptor:
                begin = offset + by
                if read_bytes(file, descriptor, begin, begin + len(data)) != data:
                    yield name, OTHER


def _is_like(one: TensorInfo, other: TensorInfo) -> bool:
    return (one.kind, one.shape) == (other.kind, other.shape)
