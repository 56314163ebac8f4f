"""Compare an export of GGUF files with the model that it was made of."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from importer.events import Listener
from importer.exports.base import ExportFile, ExportOptions, WritePlan
from importer.exports.export import ExportRequest, decide
from importer.exports.gguf.split import PREFIX
from importer.exports.gguf.types import FILE_TYPES
from importer.formats.gguf.header import Header, read_header
from importer.sources.containers.gguf import read_file_header
from importer.sources.containers.gguf_model import layer_type
from importer.sources.file import Extent, SourceFile, find
from importer.sources.location import StoredModel
from importer.sources.tree import read_tree
from importer.verification.comparison import Comparison
from importer.verification.gguf_contents import (
    NOT_OURS,
    NOT_THERE,
    OTHER,
    Part,
    Told,
    compare_contents,
)
from importer.verification.pieces import Wanted, differing
from store import MediaType, Store
from store.errors import UsageError
from store.findings import Finding, Problem

_SUFFIX: Final = ".gguf"
_FILE_TYPE: Final = "general.file_type"
_COUNT: Final = f"{PREFIX}count"
_ENTRIES: Final = "quantize.imatrix.entries_count"
_WHOLE: Final = 1 << 62
"""Bytes of a file of a split that all tensors fit in: how it was cut does not count."""


def compare_files(  # noqa: PLR0913 - as many as there are
    store: Store,
    model: StoredModel,
    place: Path,
    *,
    threads: int,
    listen: Listener,
    imatrix: str | None = None,
) -> Comparison:
    """Compare every key and every tensor of GGUF files with a stored model.

    The files themselves tell which type was asked for, and whether what sees went along. The
    model's name in them does not count, nor how tensors are shared among files of a split.

    Args:
        place: the file, or the directory that they are in.
        imatrix: path of the importance matrix that they were made with; None for the one that
            is kept with the model, if they were made with any.

    Raises:
        NotFoundError: there is no such model.
        InputError: a file is malformed.
        UsageError: there is a matrix that nobody gave.
        UnsupportedError: the model cannot be exported so.
    """
    files = _files(place)
    parts = [
        Part(file, read_file_header(file))
        for file in files
        if place.is_file() or file.path.endswith(_SUFFIX)
    ]
    parts.sort(key=lambda one: (one.header.integer(f"{PREFIX}no") or 0, one.file.path))
    write = _likeliest(store, model, place, parts, imatrix)
    ours = {one.file for one in parts}
    findings = [(file.path, NOT_OURS) for file in files if file not in ours]
    wanted: list[Wanted] = []
    left, compared = list(parts), 0
    for number, file in enumerate(write.files):
        theirs = left if len(write.files) == len(parts) == 1 else _parts_of(file, left)
        left = [one for one in left if one not in theirs]
        if not theirs:
            findings.append((file.path, NOT_THERE))
        elif not file.head:
            compared += len(theirs[0].header.tensors)
            if theirs[0].file.size == file.nbytes:
                wanted += _copied(write, number, theirs[0].file)
            else:
                findings.append((file.path, OTHER))
        else:
            pieces = tuple(piece for piece in write.pieces if piece.file == number)
            told = Told(file, _head_of(file), pieces)
            compared += len(told.header.tensors)
            given = compare_contents(told, theirs)
            findings += given.findings
            wanted += given.wanted
    findings += [(one.file.path, NOT_OURS) for one in left]
    findings += differing(wanted, threads, listen)
    return Comparison(
        tuple(
            Finding(Problem.EXPORT, subject, message, (str(model.name),))
            for subject, message in sorted(dict.fromkeys(findings))
        ),
        (),
        compared,
        len(write.files),
        sum(piece.source_nbytes for piece, _ in wanted),
        "export",
    )


def is_of_gguf(place: Path) -> bool:
    """Return whether an export is a GGUF file, or a directory of them."""
    if place.is_file():
        return True
    return place.is_dir() and any(path.suffix == _SUFFIX for path in place.iterdir())


def _files(place: Path) -> Sequence[SourceFile]:
    return (find(place.name, place),) if place.is_file() else read_tree(place).files


def _likeliest(
    store: Store, model: StoredModel, place: Path, parts: Sequence[Part], imatrix: str | None
) -> WritePlan:
    """Return the plan whose tensors are those that are there, or of the type that is told."""
    models = [one for one in parts if _is_model(one.header)]
    kind = _asked(models)
    is_split = any(one.header.integer(_COUNT) is not None for one in models)
    asked = ExportOptions(projector=len(models) < len(parts))
    plans = [asked]
    if is_split:
        plans.append(replace(asked, shard_size=_WHOLE))
    if kind is not None:
        plans.append(replace(plans[-1], quantize=kind, imatrix=imatrix))
    for options in plans:
        if options.quantize and imatrix is None and any(map(_is_weighed, models)):
            options = replace(options, imatrix=_kept_matrix(store, model))  # noqa: PLW2901
        request = ExportRequest(model, place, "gguf", options)
        write = decide(request, store, place)[0].write
        if _fits(write, parts):
            break
    return write


def _is_weighed(part: Part) -> bool:
    return _ENTRIES in part.header.metadata


def _kept_matrix(store: Store, model: StoredModel) -> str:
    """Return the path of the importance matrix that a model is kept with."""
    for layer in store.catalog.get(model.manifest).parse().layers:
        if layer.media_type == MediaType.IMATRIX:
            return str(store.blobs.path(layer.digest))
    raise UsageError(
        f"the export was made with an importance matrix, and `{model.name}` is kept with none",
        code="E_EXPORT_IMATRIX",
    )


def _asked(models: Sequence[Part]) -> str | None:
    """Return the word for the type of a file: as it says, else that of most matrices."""
    numbers = {one.header.integer(_FILE_TYPE) for one in models}
    said = next((word for word, one in FILE_TYPES.items() if one.number in numbers), None)
    if said is not None or numbers != {None}:
        return said
    tensors = itertools.chain(*(one.header.tensors for one in models))
    kinds = Counter(one.kind.name for one in tensors if len(one.shape) > 1)
    return next((kind for kind, _ in kinds.most_common() if kind in FILE_TYPES), None)


def _fits(write: WritePlan, parts: Sequence[Part]) -> bool:
    if not any(file.head for file in write.files):
        sizes = sorted(file.nbytes for file in write.files)
        return sizes == sorted(one.file.size for one in parts)
    heads = [_head_of(file) for file in write.files if file.head]
    ours = [_infos(head) for head in heads if _is_model(head)]
    theirs = [_infos(one.header) for one in parts if _is_model(one.header)]
    return sorted(itertools.chain(*ours)) == sorted(itertools.chain(*theirs))


def _parts_of(file: ExportFile, parts: Sequence[Part]) -> list[Part]:
    """Return the files that are there for one of a plan."""
    if not file.head:
        return [one for one in parts if one.file.path == file.path]
    is_model = _is_model(_head_of(file))
    return [one for one in parts if _is_model(one.header) is is_model]


def _is_model(header: Header) -> bool:
    """Return whether a file is a model, or of its split, whose first file tells so."""
    if header.integer(f"{PREFIX}no"):
        return True
    return layer_type(header, "the export") == MediaType.MODEL


def _head_of(file: ExportFile) -> Header:
    return read_header("the plan", file.nbytes, lambda begin, end: file.head[begin:end])


def _infos(header: Header) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(one.name, one.kind.name, one.shape) for one in header.tensors]


def _copied(write: WritePlan, number: int, file: SourceFile) -> list[Wanted]:
    """Return the one piece of a file that is kept byte for byte."""
    whole = (Extent(file, 0, file.size),)
    return [(piece, whole) for piece in write.pieces if piece.file == number]
