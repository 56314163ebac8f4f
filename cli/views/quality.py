"""A report of quality in words: the worst first, each row by its worst member."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from cli.views.collapse import collapse
from cli.views.sort import Sort
from cli.views.table import bar, table
from cli.views.text import rule
from importer.codecs.metrics import Deviation
from importer.models.quality import Quality, sums_of
from importer.models.suspicion import Suspicion, suspicion_of
from store.tensorfile import elements
from store.text import count, printable

_FULL_DB: Final = 60.0
"""Of the bar: what 8 bits reach on weights of one size is 45 to 50."""
_TOLD: Final = 10
_LONGEST: Final = 2000
_HEAD: Final = (
    *("TENSORS", "", "TYPE", "SQNR dB", "MIN dB", "WORST", "", "REL. RMSE", "MAX ERROR"),
    *("COSINE", "MAX CLIPPED", "MAX ZEROED"),
)
_RIGHT: Final = (1, 3, 4, 7, 8, 9, 10, 11)
_SPARE: Final = (6, 9, 7, 8)
"""The columns that a narrow terminal does without, the first one first."""
_LAST_SPARE: Final[Mapping[Sort, tuple[int, ...]]] = {
    Sort.ZEROED: (10, 3, 1),
    Sort.CLIPPED: (11, 3, 1),
}
"""Those that go next: never what the rows are ordered by."""


class _Row(NamedTuple):
    """Tensors that are alike.

    Attributes:
        deviation: of all together, or None where one is not finite.
        worst: the member that decides where the row stands.
    """

    pattern: str
    members: tuple[Quality, ...]
    deviation: Deviation | None
    worst: Quality


def quality_lines(found: Sequence[Quality], glob: str, sort: Sort) -> Iterator[str]:
    """Yield what `show --quality` prints: a row for each class of tensors, and one for all.

    A row stands where its worst member does: one expert of 672 that lost everything would not
    be seen in the sum of all.
    """
    chosen = [one for one in found if fnmatchcase(one.name, glob)]
    rows = _sorted(_classes(chosen, sort), sort)
    if not rows:
        return
    cells = [_HEAD, *(_cells(row) for row in rows)]
    if len(rows) > 1:
        total = _row("all", tuple(chosen), sort)
        cells.append(_cells(total))
    spare = (*_SPARE, *_LAST_SPARE.get(sort, (10, 11, 1)))
    yield from table(cells, right=_RIGHT, spare=spare, cut=(5, 0))
    yield ""
    worst = max(chosen, key=lambda one: _badness(one, Sort.SQNR))
    yield f"worst: {printable(worst.name, _LONGEST)}, {_decibels(worst.deviation)}"
    yield from suspicion_lines(chosen)


def suspicion_lines(found: Sequence[Quality]) -> Iterator[str]:
    """Yield which tensors lost more than is usual, and the rule that would help each."""
    suspicions = [one for one in map(suspicion_of, found) if one is not None]
    if not suspicions:
        yield f"none of {count(len(found), 'tensor')} is suspicious"
        return
    verb = "is" if len(suspicions) == 1 else "are"
    yield f"{len(suspicions):,} of {count(len(found), 'tensor')} {verb} suspicious:"
    suspicions.sort(key=lambda one: _sqnr(one.quality))
    for one in suspicions[:_TOLD]:
        name, why = printable(one.quality.name, _LONGEST), "; ".join(one.reasons)
        yield f"  {name} ({printable(one.quality.type)}): {why}"
        yield f"    --rule {rule_for(one)}"
    if len(suspicions) > _TOLD:
        yield f"  and {len(suspicions) - _TOLD:,} more"


def rule_for(suspicion: Suspicion) -> str:
    """Return the rule that would help, as it is typed."""
    return rule(suspicion.quality.name, suspicion.helps)


def quality_document(
    found: Sequence[Quality], glob: str, sort: Sort
) -> list[dict[str, object]]:
    """Return what `show --quality --json` prints: each tensor's measures and their sums."""
    chosen = _in_order([one for one in found if fnmatchcase(one.name, glob)], sort)
    return [_document(one, suspicion_of(one)) for one in chosen]


def _document(one: Quality, suspicion: Suspicion | None) -> dict[str, object]:
    document: dict[str, object] = {"name": one.name, "type": one.type, "shape": list(one.shape)}
    if one.deviation is None:
        document["finite"] = False
    else:
        document |= measures(one.deviation)
    reasons = suspicion.reasons if suspicion is not None else ()
    document["suspicious"] = list(reasons)
    document["rule"] = rule_for(suspicion) if suspicion is not None else None
    return document


def _badness(one: Quality, sort: Sort) -> float:
    """Return by what tensors are ordered, the worst or largest having most."""
    found = one.deviation
    if sort is Sort.SIZE:
        return float(elements(one.shape))
    if found is None:
        return math.inf
    if sort in {Sort.ZEROED, Sort.CLIPPED}:
        part = found.zeroed if sort is Sort.ZEROED else found.clipped
        return part / max(found.elements, 1)
    return -found.sqnr


def _in_order(found: list[Quality], sort: Sort) -> list[Quality]:
    if sort is Sort.NAME:
        return found
    return sorted(found, key=lambda one: -_badness(one, sort))


def _sorted(rows: list[_Row], sort: Sort) -> list[_Row]:
    if sort is Sort.NAME:
        return rows
    if sort is Sort.SIZE:
        return sorted(rows, key=lambda row: -_badness(row.worst, sort) * len(row.members))
    return sorted(rows, key=lambda row: -_badness(row.worst, sort))


def _sqnr(one: Quality) -> float:
    return -math.inf if one.deviation is None else one.deviation.sqnr


def _classes(found: list[Quality], sort: Sort) -> list[_Row]:
    return [
        _row(row.pattern, row.members, sort)
        for row in collapse(found, lambda one: (one.type, one.shape))
    ]


def _row(pattern: str, members: tuple[Quality, ...], sort: Sort) -> _Row:
    measure = sort if sort in {Sort.ZEROED, Sort.CLIPPED} else Sort.SQNR
    if len(members) == 1:
        return _Row(pattern, members, members[0].deviation, members[0])
    worst = max(members, key=lambda one: _badness(one, measure))
    known = [one.deviation for one in members if one.deviation is not None]
    is_known = len(known) == len(members) or (pattern == "all" and bool(known))
    return _Row(pattern, members, Deviation.total(known) if is_known else None, worst)


def _cells(row: _Row) -> tuple[str, ...]:
    count, found = len(row.members), row.deviation
    is_all = row.pattern == "all"
    start = (
        row.pattern,
        f"x{count:,}" if count > 1 and not is_all else "",
        "" if is_all else row.worst.type,
    )
    which = _which(row)
    lowest = min(map(_sqnr, row.members))
    low = "not finite" if lowest == -math.inf else f"{lowest:.2f}"
    if found is None:
        return (*start, "", low, which, *[""] * 6)
    known = [one.deviation for one in row.members if one.deviation is not None]
    return (
        *start,
        f"{found.sqnr:.2f}",
        low,
        which,
        bar(lowest / _FULL_DB),
        f"{found.rmse:.5f}",
        f"{found.max_err:.4g}",
        f"{found.cosine:.6f}",
        _share(max(one.clipped / max(one.elements, 1) for one in known)),
        _share(max(one.zeroed / max(one.elements, 1) for one in known)),
    )


def _which(row: _Row) -> str:
    """Return which member is the worst: of a row by the numbers in which members differ."""
    if "{" not in row.pattern:
        return ""
    parts, pattern = (re.split(r"[./]", text) for text in (row.worst.name, row.pattern))
    if len(parts) != len(pattern):
        return row.worst.name
    return " ".join(
        f"{parts[number - 1]}.{part}" if number else part
        for number, (part, varies) in enumerate(zip(parts, pattern, strict=True))
        if varies.startswith("{")
    )


def measures(found: Deviation) -> dict[str, object]:
    """Return what a document says of the deviation of a tensor."""
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


def _decibels(found: Deviation | None) -> str:
    return "which has values that are not finite" if found is None else f"{found.sqnr:.2f} dB"


def _share(part: float) -> str:
    return f"{100 * part:.2f}%"
