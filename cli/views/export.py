"""What an export is going to write, and what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cli.views.collapse import collapse
from cli.views.console import out, out_json, talk, warn
from cli.views.table import fitted, table
from store.text import count, printable, size

if TYPE_CHECKING:
    from importer.exports.base import Row, WritePlan
    from importer.exports.export import PlannedExport

_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})


def print_plan(name: str, to: str, planned: PlannedExport, *, json: bool) -> None:
    """Print what `export --dry-run` prints."""
    if json:
        document = {"name": name, "dry_run": True, **_document(to, planned)}
        out_json("export", {**document, "tensors": list(map(_row, planned.write.rows))})
    else:
        out(fitted(_plan_lines(name, to, planned)))


def print_result(to: str, planned: PlannedExport, seconds: float, *, json: bool) -> None:
    """Print what an export wrote."""
    write = planned.write
    if json:
        document = _document(to, planned)
        out_json("export", {**document, "milliseconds": round(seconds * 1000)})
        return
    for line in write.lossy:
        warn(f"lossy: {line}")
    for note in write.notes:
        warn(note)
    if write.left_out:
        reasons = ", ".join(sorted({left.reason for left in write.left_out}))
        talk(f"left out {count(len(write.left_out), 'file')} ({reasons}): see --dry-run")
    for note in _decoded(write):
        talk(f"note: {note}")
    talk(f"wrote {count(len(write.files), 'file')} ({size(write.nbytes)}) in {seconds:.1f} s")
    out([printable(str(planned.place), 4096)])


def _plan_lines(name: str, to: str, planned: PlannedExport) -> Iterator[str]:
    write = planned.write
    yield f"plan for {printable(name)} as {to}, in `{printable(str(planned.place), 4096)}`"
    yield ""
    rows = [("TENSORS", "", "SHAPE", "BEFORE", "AFTER", "BYTES")]
    for one in collapse(write.rows, lambda row: (row.before, row.after, row.shape, row.nbytes)):
        row = one.first
        repeats = f"x{one.repeats}" if one.repeats > 1 else ""
        shape = "x".join(map(str, row.shape))
        nbytes = f"{row.nbytes * one.repeats:,}"
        rows.append((one.pattern, repeats, shape, row.before, row.after, nbytes))
    rows.append(("total", "", "", "", "", f"{sum(row.nbytes for row in write.rows):,}"))
    yield from table(rows, right=(1, 5))
    yield ""
    yield from _files(write)
    if write.left_out:
        yield ""
        yield "left out:"
        yield from table(((left.path, left.reason) for left in write.left_out), indent=2)
    for line in write.lossy:
        yield ""
        yield f"lossy: {printable(line, 1000)}"
    for note in write.notes:
        yield ""
        yield f"warning: {printable(note, 1000)}"
    for note in _decoded(write):
        yield ""
        yield f"note: {note}"


def _decoded(write: WritePlan) -> Iterator[str]:
    """Yield how much larger packed weights become that a format has as floats."""
    rows = [row for row in write.rows if row.after in _FLOATS and row.before not in _FLOATS]
    names = {row.name for row in rows}
    before = sum(piece.source_nbytes for piece in write.pieces if piece.name in names)
    after = sum(row.nbytes for row in rows)
    if after > before:
        types = ", ".join(sorted({row.after for row in rows}))
        verb = "is" if len(rows) == 1 else "are"
        yield (
            f"{count(len(rows), 'tensor')} {verb} decoded to {types}: "
            f"{size(before)} become {size(after)}"
        )


def _files(write: WritePlan) -> Iterator[str]:
    rows = [("FILE", "BYTES"), *((file.path, f"{file.nbytes:,}") for file in write.files)]
    rows.append(("total", f"{write.nbytes:,}"))
    yield from table(rows, right=(1,))


def _document(to: str, planned: PlannedExport) -> dict[str, object]:
    write = planned.write
    return {
        "format": to,
        "path": str(planned.place),
        "bytes": write.nbytes,
        "files": [{"path": file.path, "bytes": file.nbytes} for file in write.files],
        "left_out": [{"path": left.path, "reason": left.reason} for left in write.left_out],
        "lossy": list(write.lossy),
        "warnings": [*write.notes, *_decoded(write)],
    }


def _row(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "shape": list(row.shape),
        "before": row.before,
        "type": row.after,
        "file": row.file,
        "bytes": row.nbytes,
    }
