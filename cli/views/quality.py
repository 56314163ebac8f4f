"""A report of quality in words: the worst first, with a bar for each row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from cli.views.collapse import collapse
from cli.views.sort import Sort
from cli.views.table import table
from importer.codecs.metrics import Deviation
from importer.models.quality import Quality, sums_of
from store.tensorfile import elements

_BAR: Final = 20
_FULL_DB: Final = 60.0
"""Of the bar: what 8 bits reach on weights of one size is 45 to 50."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


class _Row(NamedTuple):
    """A class of tensors, or what is known of it."""

    pattern: str
    repeats: int
    type: str
    elements: int
    deviation: Deviation | None


def quality_lines(found: Sequence[Quality], glob: str, sort: Sort) -> Iterator[str]:
    """Yield what `show --quality` prints: a row for each class of tensors, and one for all."""
    rows = _classes([one for one in found if fnmatchcase(one.name, glob)])
    if not rows:
        return
    if sort is Sort.SIZE:
        rows.sort(key=lambda row: -row.elements * row.repeats)
    elif sort is Sort.ERROR:
        rows.sort(key=lambda row: _sqnr(row.deviation))
    known = [row.deviation for row in rows if row.deviation]
    cells = [
        (
            "TENSORS",
            "",
            "TYPE",
            "SQNR dB",
            "",
            "REL. RMSE",
            "MAX ERROR",
            "COSINE",
            "CLIPPED",
            "ZEROED",
        ),
        *(_cells(row) for row in rows),
    ]
    if len(rows) > 1 and known:
        total = Deviation.total(known)
        cells.append(_cells(_Row("all", 1, "", total.elements, total)))
    yield from table(cells, right=(1, 3, 5, 6, 7, 8, 9))


def quality_document(
    found: Sequence[Quality], glob: str, sort: Sort
) -> list[dict[str, object]]:
    """Return what `show --quality --json` prints: each tensor's measures and their sums."""
    chosen = [one for one in found if fnmatchcase(one.name, glob)]
    if sort is Sort.SIZE:
        chosen.sort(key=lambda one: -elements(one.shape))
    elif sort is Sort.ERROR:
        chosen.sort(key=lambda one: _sqnr(one.deviation))
    return [
        {"name": one.name, "type": one.type, "shape": list(one.shape)}
        | ({"finite": False} if one.deviation is None else measures(one.deviation))
        for one in chosen
    ]


def _sqnr(found: Deviation | None) -> float:
    return -math.inf if found is None else found.sqnr


def _classes(found: list[Quality]) -> list[_Row]:
    rows = []
    for row in collapse(found, lambda one: (one.type, one.shape)):
        parts = [one.deviation for one in row.members]
        known = [part for part in parts if part is not None]
        total = Deviation.total(known) if len(known) == len(parts) else None
        one = row.first
        rows.append(_Row(row.pattern, row.repeats, one.type, elements(one.shape), total))
    return rows


def _cells(row: _Row) -> tuple[str, ...]:
    times = f"x{row.repeats}" if row.repeats > 1 else ""
    if (found := row.deviation) is None:
        return (row.pattern, times, row.type, "not finite", *[""] * 6)
    return (
        row.pattern,
        times,
        row.type,
        f"{found.sqnr:.2f}",
        _bar(found.sqnr),
        f"{found.rmse:.5f}",
        f"{found.max_err:.4g}",
        f"{found.cosine:.6f}",
        _share(found.clipped, found.elements),
        _share(found.zeroed, found.elements),
    )


def measures(found: Deviation) -> dict[str, object]:
    """Return the measures of some tensors, and the sums that they are made of."""
    whole = max(found.elements, 1)
    measures = {
        "sqnr_db": found.sqnr,
        "relative_rmse": found.rmse,
        "max_error": found.max_err,
        "cosine": found.cosine,
        "clipped_share": found.clipped / whole,
        "zeroed_share": found.zeroed / whole,
    }
    # JSON has no infinity, which an error of 0 gives.
    finite = {key: value if math.isfinite(value) else None for key, value in measures.items()}
    return {**finite, "sums": sums_of(found)}


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else ""


def _bar(sqnr: float) -> str:
    filled = round(8 * _BAR * min(max(sqnr, 0.0), _FULL_DB) / _FULL_DB)
    whole, rest = divmod(filled, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)
