"""Put the files of an export together: weights, documents, and files that were kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from importer.codecs.transcode import Copy
from importer.exports.base import ExportFile, Piece, Row, WritePlan
from importer.exports.safetensors import Shard
from importer.planning.plan import Plan
from importer.sources.file import Extent
from importer.sources.roles import LeftOut
from store.errors import InputError
from store.paths import why_unsafe
from store.text import printable

_LONGEST: Final = 255
"""Bytes of a name, on most file systems."""
_FILE: Final = Copy("U8")


def assemble(  # noqa: PLR0913 - each is another part of it
    plan: Plan,
    shards: Sequence[Shard],
    documents: Mapping[str, bytes],
    dropped: Mapping[str, str],
    rows: Iterable[Row],
    *,
    lossy: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> WritePlan:
    """Return the plan of an export.

    Args:
        plan: whose kept files go along.
        shards: files of weights.
        documents: path -> bytes of files that are made, some in place of kept ones.
        dropped: path -> why, of kept files that do not go along.
        rows: what becomes of the tensors.
        lossy: what the format cannot hold.
        notes: what the user should know.

    Raises:
        InputError: a path is not safe, or two files would have one.
    """
    kept = {
        file.file.path: file.file
        for file in plan.files
        if file.file.path not in dropped and file.file.path not in documents
    }
    files = [shard.file for shard in shards]
    files += [ExportFile(path, len(data), data) for path, data in documents.items()]
    files += [ExportFile(path, file.size) for path, file in kept.items()]
    files.sort(key=lambda file: file.path.encode("utf-8", "surrogatepass"))
    check_paths([file.path for file in files])
    numbers = {file.path: number for number, file in enumerate(files)}
    pieces: list[Piece] = []
    for shard in shards:
        pieces += shard.pieces(numbers[shard.file.path])
    for path, file in kept.items():
        whole = (Extent(file, 0, file.size),)
        places = ((0, file.size),)
        pieces.append(Piece(path, (file.size,), whole, _FILE, numbers[path], places))
    there = {file.file.path for file in plan.files}
    left_out = [LeftOut(path, reason) for path, reason in dropped.items() if path in there]
    return WritePlan(
        tuple(files),
        tuple(pieces),
        tuple(sorted(rows, key=lambda row: row.name.encode())),
        (*plan.left_out, *left_out),
        tuple(lossy),
        tuple(notes),
    )


def check_paths(paths: Sequence[str]) -> None:
    """Make sure that files can lie beside each other in one directory, on any system.

    Raises:
        InputError: a path leads elsewhere, or two are one where case does not count.
    """
    seen: dict[str, str] = {}
    for path in paths:
        longest = max(len(os.fsencode(part)) for part in path.split("/"))
        why = why_unsafe(path) or (longest > _LONGEST and f"has a part of {longest} bytes")
        if why:
            raise InputError(
                f"`{printable(path)}` cannot be a file of an export: it {why}", code="E_NAME"
            )
        if (other := seen.get(path.casefold())) is not None:
            _collide(path, other)
        seen[path.casefold()] = path
    for path in paths:
        parent = path.casefold().rpartition("/")[0]
        while parent:
            if parent in seen:
                _collide(path, seen[parent])
            parent = parent.rpartition("/")[0]


def _collide(path: str, other: str) -> NoReturn:
    raise InputError(
        f"`{printable(path)}` and `{printable(other)}` cannot both be in the export",
        code="E_NAME_COLLISION",
    )
