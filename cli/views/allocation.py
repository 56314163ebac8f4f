"""Types that were chosen within a size: what was met, and what more or less would give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from cli.views.table import table
from importer.planning.allocation import Allocation, Chosen, Point
from store.text import count, in_bytes, printable, size

_WORST: Final = 5


def allocation_lines(made: Allocation) -> Iterator[str]:
    """Yield what a plan says of a size that was asked for."""
    yield from size_lines(made)
    expected = _said(made.point.error)
    yield f"expected error {expected}; no choice of this size is below {made.bound:.3g}"
    yield ""
    points = sorted({*made.points, made.point})
    rows: list[tuple[str, ...]] = [("SIZE", "BITS", "ERROR", "SQNR dB", "")]
    rows += [(*_cells(one), "this plan" if one == made.point else "") for one in points]
    yield from table(rows, right=(0, 1, 2, 3))
    yield ""
    if made.more is not None:
        step = made.more.nbytes - made.point.nbytes
        then = _said(made.more.error)
        yield f"{in_bytes(step)} more would make the expected error {then}"
    worst = sorted(made.chosen, key=lambda one: -one.share)[:_WORST]
    if worst and worst[0].share:
        yield "loses most:"
        yield from table(map(_loss, worst), indent=2, right=(2,))
    yield ""


def size_lines(made: Allocation) -> Iterator[str]:
    """Yield how much of what was allowed is used, and what would be a better use of it."""
    yield _used(made)
    if made.guesses:
        yield "how much errors matter is guessed; `ingot eval --sensitivity` measures it"


def _used(made: Allocation) -> str:
    left = made.limit - made.used
    share = 100 * left / made.limit
    if made.bits is not None:
        return (
            f"target {float(made.bits):g} bits a weight: {made.point.bits:.4f} used, "
            f"{left:,} of {made.limit:,} bytes left ({share:.3f}%)"
        )
    return (
        f"target {made.limit:,} bytes ({size(made.limit)}): {made.used:,} used, {left:,} left "
        f"({share:.3f}%)"
    )


def allocation_document(made: Allocation | None) -> dict[str, object] | None:
    """Return the same as a document; None where no size was asked for."""
    if made is None:
        return None
    return {
        "target_bytes": made.limit if made.bits is None else None,
        "target_bits": None if made.bits is None else float(made.bits),
        "limit_bytes": made.limit,
        "used_bytes": made.used,
        **_point(made.point),
        "error_bound": made.bound,
        "curve": [_point(one) for one in made.points],
        "more": None if made.more is None else _point(made.more),
        "chosen": [
            {
                "name": one.name,
                "tensors": one.tensors,
                "type": one.type,
                "bytes": one.nbytes,
                "factor": one.factor,
                "error": one.error,
                "share": one.share,
            }
            for one in made.chosen
        ],
    }


def _point(point: Point) -> dict[str, object]:
    return {"bytes": point.nbytes, "bits_per_weight": point.bits, "error": point.error}


def _cells(point: Point) -> tuple[str, ...]:
    decibels = f"{-10 * math.log10(point.error):.1f}" if point.error > 0 else ""
    return size(point.nbytes), f"{point.bits:.2f}", f"{point.error:.3g}", decibels


def _said(error: float) -> str:
    return f"{error:.3g}" + (f" ({-10 * math.log10(error):.1f} dB)" if error > 0 else "")


def _loss(one: Chosen) -> tuple[str, ...]:
    tensors = count(one.tensors, "tensor") if one.tensors > 1 else ""
    return printable(one.name), one.type, f"{one.share:.1%}", tensors
