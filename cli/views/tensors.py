"""The tensors of a model as a table, repeated layers in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from cli.views.collapse import Row, collapse
from cli.views.table import table
from importer.models.description import Description
from importer.sources.stored.tensors import StoredTensor
from store.text import size

_HEAD = ("TENSORS", "TYPE", "SHAPE", "SIZE", "", "TOTAL", "SHARE")


def tensor_lines(
    model: Description, glob: str, *, by_size: bool, indent: int = 0
) -> Iterator[str]:
    """Yield a row for each tensor that matches, with a head and the sum of all.

    Args:
        model: whose tensors they are.
        glob: that chooses some.
        by_size: order by what all tensors of a row take together, the most first.
        indent: blanks before each line.
    """
    chosen = [tensor for tensor in model.tensors if fnmatchcase(tensor.name, glob)]
    if not chosen:
        return
    rows = collapse(chosen, lambda tensor: (tensor.type_name, tensor.shape, tensor.nbytes))
    if by_size:
        rows.sort(key=lambda row: -_nbytes(row.members))
    whole = sum(tensor.nbytes for tensor in model.tensors)
    cells = [_HEAD, *(_cells(row, whole) for row in rows)]
    if len(rows) > 1:
        nbytes = _nbytes(chosen)
        count = f"x{len(chosen):,}"
        cells.append(("all", "", "", "", count, size(nbytes), _share(nbytes, whole)))
    yield from table(cells, indent, right=(3, 4, 5, 6), spare=(6, 3, 2))


def _cells(row: Row[StoredTensor], whole: int) -> tuple[str, ...]:
    first, nbytes = row.first, _nbytes(row.members)
    return (
        row.pattern,
        first.type_name,
        "[" + " ".join(map(str, first.shape)) + "]",
        size(first.nbytes),
        f"x{row.repeats}" if row.repeats > 1 else "",
        size(nbytes),
        _share(nbytes, whole),
    )


def _nbytes(tensors: Sequence[StoredTensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _share(nbytes: int, whole: int) -> str:
    return f"{100 * nbytes / whole:.1f}%" if whole else ""
