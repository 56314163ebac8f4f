"""Where the bytes of a model are, as a tree with bars."""

from __future__ import annotations

from collections.abc import Iterator

from cli.views.table import bar, table, terminal_width
from importer.models.tree import Node
from store.text import size

_BARS = ((100, 30), (80, 20), (0, 10))
"""The width of a terminal, and of the bars that fit it."""
_TYPES = 3


def tree_lines(root: Node) -> list[str]:
    """Return a line for each part: bytes, share of the model, types."""
    width = terminal_width() or _BARS[0][0]
    length = next(bars for least, bars in _BARS if width >= least)
    rows: list[tuple[str, ...]] = [("", "SIZE", "SHARE", "", "TENSORS", "TYPES")]
    rows += _rows(root, "", "", max(root.nbytes, 1), length)
    return table(rows, right=(1, 2, 4), spare=(4,), cut=(5, 0))


def tree_document(node: Node) -> dict[str, object]:
    """Return a part and its parts as `show --tree --json` prints them."""
    return {
        "name": node.name,
        "layers": node.repeats if node.repeats > 1 else None,
        "tensors": node.tensors,
        "types": list(node.types),
        "bytes": node.nbytes,
        "parts": [tree_document(part) for part in node.parts],
    }


def _rows(
    node: Node, branch: str, below: str, whole: int, length: int
) -> Iterator[tuple[str, ...]]:
    types = ", ".join(node.types[:_TYPES]) + (", …" if len(node.types) > _TYPES else "")
    share = node.nbytes / whole
    yield (
        f"{branch}{node.name}",
        size(node.nbytes),
        f"{100 * share:.1f}%",
        bar(share, length),
        f"{node.tensors:,}",
        types,
    )
    for number, part in enumerate(node.parts, 1):
        is_last = number == len(node.parts)
        here, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _rows(part, f"{below}{here}", f"{below}{rest}", whole, length)
