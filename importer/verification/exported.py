"""Compare an export with the model that it was made of, to the last bit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from importer.codecs.spec import GROUP_SIZES, Mode
from importer.events import Listener, silent
from importer.exports.base import ExportOptions, Piece, WritePlan
from importer.exports.export import ExportRequest, decide
from importer.exports.uqff.types import TYPES
from importer.formats.uqff.layers import Family
from importer.sources.document import CONFIG, Document, read_document
from importer.sources.file import Extent
from importer.sources.location import StoredModel
from importer.verification.comparison import Comparison
from importer.verification.export_files import (
    WEIGHTS,
    Expected,
    There,
    arrays_of,
    documents_that_differ,
    listed,
    read_there,
    sets_of,
)
from importer.verification.exported_file import compare_files, is_of_gguf
from importer.verification.pieces import differing
from store import Store
from store.errors import IngotError, NotFoundError, UnsupportedError
from store.findings import Finding, Problem
from store.text import printable

_DTYPES: Final = (None, "BF16", "F16", "F32")
_MIXED: Final = ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")


def compare_export(  # noqa: PLR0913 - as many as there are
    store: Store,
    model: StoredModel,
    place: Path,
    *,
    threads: int = 1,
    listen: Listener = silent,
    imatrix: str | None = None,
) -> Comparison:
    """Compare every array and every file of an export with a stored model.

    How it was asked for is found out: the format, dtype and types whose plan has arrays of the
    names, dtypes and shapes that are there. How arrays are shared among files does not count.

    Args:
        place: the directory of the export, or its one file.
        imatrix: path of the importance matrix that it was made with, if the model is not kept
            with that one.

    Raises:
        NotFoundError: there is no such model or directory.
        InputError: a file of weights in it is malformed.
        UnsupportedError: the model cannot be exported in any way.
    """
    if not os.path.lexists(place):
        raise NotFoundError(
            f"there is no export at `{printable(str(place))}`",
            code="E_SRC_MISSING",
            hint="Name the directory of an export, or its one file",
        )
    if is_of_gguf(place):
        return compare_files(
            store, model, place, threads=threads, listen=listen, imatrix=imatrix
        )
    there = read_there(place)
    write = _likeliest(store, model, place, there, imatrix)
    expected = arrays_of(write)
    findings = list(listed(write, there, expected))
    wanted = [
        (piece, extents)
        for piece in write.pieces
        if (extents := _found(piece, write, there, expected)) is not None
    ]
    findings += differing(wanted, threads, listen)
    return Comparison(
        tuple(
            Finding(Problem.EXPORT, subject, message, (str(model.name),))
            for subject, message in dict.fromkeys(findings)
        ),
        (),
        len(expected.by_key),
        len(there.files),
        sum(piece.source_nbytes for piece, _ in wanted),
        "export",
    )


def _likeliest(
    store: Store, model: StoredModel, place: Path, there: There, imatrix: str | None
) -> WritePlan:
    """Return the plan whose arrays are most like those that are there."""
    best: tuple[int, WritePlan] | None = None
    problem: IngotError | None = None
    seen = {key: (array.dtype, array.shape) for key, array in there.arrays.items()}
    for to, options in _candidates(there, imatrix):
        request = ExportRequest(model, place, to, options)
        try:
            planned, _ = decide(request, store, place)
        except UnsupportedError as error:
            problem = problem or error
            continue
        arrays = arrays_of(planned.write).by_key
        expected = {key: (one.dtype, one.shape) for key, one in arrays.items()}
        different = len(expected.items() ^ seen.items())
        if best is None or different < best[0]:
            best = different, planned.write
        if not different and _agree(planned.write, there):
            return planned.write
    if best is None:
        assert problem is not None, "there is a candidate"
        raise problem
    return best[1]


def _candidates(there: There, imatrix: str | None) -> Iterator[tuple[str, ExportOptions]]:
    asked = ExportOptions()
    if sets := sets_of(there):
        yield from _uqff_candidates(sets, imatrix)
        return
    for dtype in _DTYPES:
        yield "hf", replace(asked, dtype=dtype)
    for dtype in _DTYPES:
        yield "mlx", replace(asked, dtype=dtype)
    if (kind := _asked_of_mlx(there)) is not None:
        for dtype in _DTYPES:
            yield "mlx", replace(asked, quantize=kind, dtype=dtype)
        for recipe in _MIXED:
            yield "mlx", replace(asked, recipe=recipe)


def _uqff_candidates(
    sets: Sequence[str], imatrix: str | None
) -> Iterator[tuple[str, ExportOptions]]:
    """Yield what sets of shards may be asked by: their names are those of types."""
    asked = ExportOptions()
    kinds = [",".join(sets)] if TYPES.keys() >= set(sets) else []
    for dtype in _DTYPES:
        for kind in (*kinds, None):
            given = imatrix if kind is not None else None
            yield "uqff", replace(asked, quantize=kind, dtype=dtype, imatrix=given)
    if all(name in TYPES and TYPES[name].family is Family.AFQ for name in sets):
        for group_size in GROUP_SIZES[Mode.AFFINE]:
            for dtype in _DTYPES:
                yield "uqff", ExportOptions(kinds[0], group_size, dtype=dtype)


def _asked_of_mlx(there: There) -> str | None:
    """Return the type that most modules of an export to MLX have, as it is spelled."""
    config: Document = {}
    with contextlib.suppress(IngotError):
        config = read_document(there.files[CONFIG]) if CONFIG in there.files else {}
    told = config.get("quantization")
    if not isinstance(told, dict):
        return None
    mode = told.get("mode", "affine")
    facts = told.get("bits"), told.get("group_size")
    if mode != "affine" or not all(type(number) is int for number in facts):
        return mode if isinstance(mode, str) and mode != "affine" else None
    return f"int{facts[0]}/{facts[1]}"


def _agree(write: WritePlan, there: There) -> bool:
    return next(documents_that_differ(write, there), None) is None


def _found(
    piece: Piece, write: WritePlan, there: There, expected: Expected
) -> tuple[Extent, ...] | None:
    """Return where in the export is what a piece gives, or None where it is told already."""
    path = write.files[piece.file].path
    if not path.endswith(WEIGHTS):
        file = there.files.get(path)
        is_like = file is not None and file.size == write.files[piece.file].nbytes
        return (Extent(file, 0, file.size),) if file is not None and is_like else None
    extents = []
    for begin, nbytes in piece.places:
        if not nbytes:
            return None
        wanted = expected.at(piece.file, begin)
        array = there.arrays.get(wanted.key)
        if array is None or (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
            return None
        offset = array.offset + begin - wanted.begin
        extents.append(Extent(array.file, offset, nbytes))
    return tuple(extents)
