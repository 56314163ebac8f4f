"""Two models side by side: what is the same, what differs, and how far values moved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cli.views.collapse import Row, collapse
from cli.views.diff_groups import (
    MOVED,
    Groups,
    Side,
    by_layer,
    by_role,
    by_type,
    moved,
    of_a,
    of_b,
    sums,
)
from cli.views.table import bar, table
from cli.views.text import digits
from importer.verification.diff import Difference, Form, Kind, TensorDifference
from importer.verification.documents import DocumentDifference, Entry
from importer.verification.recorded import Recorded
from store.text import count, printable, size

_SHOWN: Final = 20
_KEYS: Final = 8
_BAR: Final = 16
_ONE_DIGIT: Final = 10


def diff_lines(
    names: tuple[str, str], found: Difference, *, verbose: bool = False
) -> Iterator[str]:
    """Yield what `diff` prints.

    Args:
        names: of the two sides.
        found: what differs.
        verbose: list every tensor and every key.
    """
    most = max(len(found.tensors), 1) if verbose else _SHOWN
    sides = [
        (label, name, *_totals(found, side))
        for label, name, side in zip("AB", names, (of_a, of_b), strict=True)
    ]
    yield from table(sides, right=(2, 3), cut=(1,))
    yield ""
    yield _verdict(found)
    if not found.is_empty:
        yield from _differences(found, most, verbose=verbose)
    if verbose:
        yield from _listed("THE SAME", found.of(Kind.SAME), most, verbose=True)


def _differences(found: Difference, most: int, *, verbose: bool) -> Iterator[str]:
    changed = found.of(*MOVED)
    yield from _section("ROLE", by_role(found), types=True)
    there = {one.layer for one in found.tensors if one.kind is not Kind.SAME}
    layers = by_layer(found)
    if len(layers) > 1 and there - {""}:
        yield from _section("LAYER", [row for row in layers if row[0] in there], types=False)
    yield from _changed(sorted(changed, key=_how_far), most)
    for title, kind in (
        ("IN BOTH, IN ANOTHER SHAPE", Kind.RESHAPED),
        ("ONLY IN A", Kind.REMOVED),
        ("ONLY IN B", Kind.ADDED),
    ):
        yield from _listed(title, found.of(kind), most, verbose=verbose)
    yield from _documents(found.documents, verbose=verbose)


def record_line(found: Recorded) -> str:
    """Return why two models that are equal have two IDs."""
    keys = f" ({', '.join(map(printable, found.keys))})" if found.keys else ""
    return (
        f"they have two IDs, {found.a.short} and {found.b.short}, because an ID also tells how "
        f"a model was made, and these records differ{keys}"
    )


def _section(title: str, groups: Groups, *, types: bool) -> Iterator[str]:
    rows = [(name, members, moved(members)) for name, members in groups]
    most = max((group.far or 0.0 for *_, group in rows), default=0.0)
    head = (title, "TENSORS", *(("A", "B") if types else ()), "DIFFER", "BY", "")
    lines: list[tuple[str, ...]] = [head]
    for name, members, group in rows:
        here = (_types(members, of_a), _types(members, of_b)) if types else ()
        # Of another shape, or on one side alone: how far these are apart has no measure.
        alone = sum(one.kind in (Kind.RESHAPED, Kind.REMOVED, Kind.ADDED) for one in members)
        far = "" if group.far is None else _percent(group.far)
        length = bar(group.far / most, _BAR) if group.far and most else ""
        differ = str(group.changed + alone or "-")
        lines.append((name, str(len(members)), *here, differ, far, length))
    yield ""
    last = len(head)
    yield from table(
        lines,
        right=(1, last - 3, last - 2),
        spare=(last - 1, 1),
        cut=(2, 3, 0) if types else (0,),
    )


def _changed(changed: Sequence[TensorDifference], most: int) -> Iterator[str]:
    if not changed:
        return
    yield ""
    head = ("TENSOR", "A", "B", "BY", "SQNR dB", "MAX ERROR", "COSINE", "ZEROED")
    rows = [head, *(_cells(one) for one in changed[:most])]
    yield from table(rows, right=(3, 4, 5, 6, 7), spare=(7, 6, 5), cut=(1, 2, 0))
    yield from _more(len(changed) - most)


def _cells(one: TensorDifference) -> tuple[str, ...]:
    assert one.a is not None
    assert one.b is not None
    types = (one.a.type, one.b.type if one.b.type != one.a.type else "")
    found = one.deviation
    if one.has_same_values:
        return (one.name, *types, "nothing", "", "", "", "")
    if found is None:
        return (one.name, *types, "?", "", "", "", "")
    zeroed = f"{100 * found.zeroed / found.elements:.2f}%" if found.zeroed else ""
    return (
        one.name,
        *types,
        _percent(found.rmse),
        f"{found.sqnr:.2f}" if math.isfinite(found.sqnr) else "",
        f"{found.max_err:.4g}",
        f"{found.cosine:.6f}",
        zeroed,
    )


def _listed(
    title: str, tensors: Sequence[TensorDifference], most: int, *, verbose: bool
) -> Iterator[str]:
    if not tensors:
        return
    yield ""
    if verbose:
        rows = [Row(one.name, (one,)) for one in tensors]
    else:
        rows = collapse(tensors, lambda one: (one.a, one.b))
    lines: list[tuple[str, ...]] = [(title, "", "", "")]
    for row in rows[:most]:
        times = f"x{row.repeats}" if row.repeats > 1 else ""
        forms = dict.fromkeys(filter(None, (row.first.a, row.first.b)))
        sides = [_shown(form) for form in forms]
        lines.append((row.pattern, times, *sides, *[""] * (2 - len(sides))))
    yield from table(lines, right=(1,))
    yield from _more(len(rows) - most)


def _documents(documents: Sequence[DocumentDifference], *, verbose: bool) -> Iterator[str]:
    if not documents:
        return
    yield ""
    rows: list[tuple[str, str]] = [("BESIDE THE WEIGHTS", "")]
    for one in documents:
        rows.append((one.name, _state(one)))
        shown = one.entries if verbose else one.entries[:_KEYS]
        rows += [(f"  {entry.key}", _entry(entry)) for entry in shown]
        if len(one.entries) > len(shown):
            rows.append((f"  and {len(one.entries) - len(shown)} more", ""))
    yield from table(rows, cut=(1, 0))


def _verdict(found: Difference) -> str:
    if found.is_empty:
        unread = f", {found.unread:,} of them byte for byte" if found.unread else ""
        return f"equal: {count(len(found.tensors), 'tensor')}{unread}, and everything else"
    said = [
        f"{len(found.of(kind)):,} {word}"
        for kind, word in (
            (Kind.SAME, "the same"),
            (Kind.CHANGED, "changed"),
            (Kind.RETYPED, "in another type"),
            (Kind.RESHAPED, "of another shape"),
            (Kind.REMOVED, "only in A"),
            (Kind.ADDED, "only in B"),
        )
        if found.of(kind)
    ]
    beside = f"; {count(len(found.documents), 'difference')} beside the weights"
    return f"tensors: {', '.join(said)}{beside if found.documents else ''}"


def _state(one: DocumentDifference) -> str:
    if one.a is None and one.b is None:
        return "differs"
    if one.b is None:
        return f"only in A, {size(one.a or 0)}"
    if one.a is None:
        return f"only in B, {size(one.b)}"
    sizes = size(one.a) if one.a == one.b else f"{size(one.a)} -> {size(one.b)}"
    return f"differs, {sizes}"


def _entry(entry: Entry) -> str:
    if entry.a is None:
        return f"only in B: {entry.b}"
    if entry.b is None:
        return f"only in A: {entry.a}"
    return f"{entry.a} -> {entry.b}"


def _more(number: int) -> Iterator[str]:
    if number > 0:
        yield f"and {number:,} more; --verbose lists them"


def _percent(share: float) -> str:
    # As many digits in each row: 7.90 below 7.88.
    hundredths = 100 * share
    return f"{hundredths:.2f}%" if 1 <= hundredths < _ONE_DIGIT else f"{digits(hundredths)}%"


def _how_far(one: TensorDifference) -> tuple[float, str]:
    if one.deviation is None:
        return (0.0 if one.has_same_values else -math.inf, one.name)
    return (-one.deviation.rmse, one.name)


def _totals(found: Difference, side: Side) -> tuple[str, str]:
    number, nbytes = sums(found.tensors, side)
    return count(number, "tensor"), size(nbytes)


def _types(members: Iterable[TensorDifference], side: Side) -> str:
    """Return the types of some tensors with their bytes, the largest first."""
    return ", ".join(f"{kind} {size(nbytes)}" for kind, nbytes in by_type(members, side))


def _shown(form: Form) -> str:
    return f"{form.type} {list(form.shape)}"
