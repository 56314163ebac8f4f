"""What Hugging Face's tensors are made of: rows of GGUF's, in which order, changed how."""

from __future__ import annotations

from typing import NamedTuple

from importer.codecs.base import Shape
from importer.codecs.views.undone import Change
from importer.codecs.views.woven import Pattern, Strand


class Piece(NamedTuple):
    """Some rows of a tensor in the file; all of its dimensions but the last count rows.

    Attributes:
        tensor: GGUF's name.
        first: row.
        rows: how many; elements where it is a vector.
    """

    tensor: str
    first: int
    rows: int


class Turned(NamedTuple):
    """Pieces of which the rows of each head are in llama.cpp's order.

    Attributes:
        rows: of a head.
    """

    rows: int


class Regrouped(NamedTuple):
    """A piece whose columns are groups of runs, of which the file has the first of each first.

    Attributes:
        groups: how many.
        runs: of each group.
        columns: of a run.
    """

    groups: int
    runs: int
    columns: int


class Weave(NamedTuple):
    """Pieces whose rows take turns.

    Attributes:
        patterns: the arrays' numbers are those of the pieces.
        turned: for each piece the rows of a head in llama.cpp's order, or 0.
        is_transposed: whether the result is then seen as matrices of which each becomes its
            transpose; the rows of all patterns are those of one.
        flipped: the number of a piece that is `[matrices, columns, rows]`, or None.
        is_by_element: whether every element counts as a row.
    """

    patterns: tuple[Pattern, ...]
    turned: tuple[int, ...] = ()
    is_transposed: bool = False
    flipped: int | None = None
    is_by_element: bool = False


class Made(NamedTuple):
    """One tensor of Hugging Face's.

    Attributes:
        shape: as Hugging Face has it.
        pieces: one, unless the layout weaves several.
        layout: None where the values are in the order of the piece.
        change: what the converter did to the values, if it did something.
        scale: a number that all values have to be multiplied by, or None.
    """

    name: str
    shape: Shape
    pieces: tuple[Piece, ...]
    layout: Turned | Regrouped | Weave | None = None
    change: Change | None = None
    scale: Piece | None = None


def in_turn(*rows: int, times: int) -> tuple[Pattern, ...]:
    """Return the pattern of pieces that give so many rows each, as often as it takes.

    Example:
        >>> in_turn(2, 1, 1, times=4)  # two rows of the first, one of the second, …
    """
    strands = tuple(Strand(array, count) for array, count in enumerate(rows))
    return (Pattern(strands, times),)
