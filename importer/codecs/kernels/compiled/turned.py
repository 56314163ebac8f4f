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
