"""Groups turned on their side: each in a column, so that a lane of a vector is a group.

Sums are taken in the order of the elements, so that nothing can be added in parallel within a
group. All numbers of the groups of a block lie in one array, at distances that the compiler
knows, or it would have to prove of a dozen arrays that none overlaps another.
"""

from __future__ import annotations

from typing import Final

from importer.codecs.kernels.compiled.floats import widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns

GROUPS: Final = 64
"""Groups of a block."""


@jit
def turn(source: Array, is_half: Flag, is_wide: Flag, values: Array) -> None:
    """Put each group into a column."""
    length = columns(source, 16, 8)
    for group in range(source.shape[0]):
        for i in range(length):
            values[i, group] = widen(source[group, i], is_half, is_wide)


@jit
def turn_weights(rows: Array, first: int, count: int, weights: Array) -> None:
    """Put the weights of each group into a column.

    Args:
        rows: the weights of a row of the tensor, one group after the other.
        first: number of the first group, counted from the beginning of a row.
        count: of groups.
    """
    length = columns(rows, 16, 8)
    row = first % rows.shape[0]
    for group in range(count):
        for i in range(length):
            weights[i, group] = rows[row, i]
        row += 1
        row = row if row < rows.shape[0] else 0
