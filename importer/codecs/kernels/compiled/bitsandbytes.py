"""The values of bitsandbytes' 4 bits, compiled: `reference/bitsandbytes.py`.

A block has many more elements than there are codes: each code's value is computed once.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import narrow
from importer.codecs.kernels.compiled.jit import Array, Flag, jit


@jit
def decode(
    data: Array,
    largest: Array,
    book: Array,
    block_size: int,
    is_half: Flag,
    is_wide: Flag,
    table: Array,
    values: Array,
) -> None:
    """Decode blocks.

    Args:
        data: two codes in a byte, the upper half first.
        largest: magnitude of each block, finite, as `book` is.
        table: scratch for the values of the codes of a block.
    """
    half = block_size // 2
    for block in range(largest.size):
        first = block * half
        magnitude = largest[block]
        for code in range(book.size):
            table[code] = narrow(np.float32(book[code] * magnitude), is_half, is_wide)
        for i in range(min(half, data.size - first)):
            byte = data[first + i]
            at = first + i
            values[2 * at] = table[np.uint8(byte >> np.uint8(4))]
            values[2 * at + 1] = table[np.uint8(byte & np.uint8(15))]
