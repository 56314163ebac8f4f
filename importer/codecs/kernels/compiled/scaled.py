"""Codes times scales, compiled: `reference/scaled.py`."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled import lanes as packed
from importer.codecs.kernels.compiled.floats import narrow
from importer.codecs.kernels.compiled.jit import Array, Flag, jit

_WORTH_A_TABLE: Final = 1024
"""Codes under one scale from which on a table of all 256 products costs less."""


@jit
def decode(
    codes: Array,
    table: Array,
    scales: Array,
    zeros: Array,
    has_zeros: Flag,
    is_number: Flag,
    places: Array,
    width: int,
    is_line: Flag,
    is_half: Flag,
    is_wide: Flag,
    nan: int,
    products: Array,
    values: Array,
    left: Array,
) -> None:
    """Multiply codes of shape (rows, columns) by the scales of their blocks.

    Args:
        table: the value of each of 256 codes.
        scales: of shape (scale rows, blocks of a row), as `zeros` is.
        is_number: whether the value of a code is its number.
        places: the scale row of each row.
        width: columns of a block.
        is_line: whether it is 1.
        nan: the bits of every NaN.
        products: scratch for 256 values.
        left: 1 for each row with a NaN that is void.
    """
    left[:] = np.uint8(0)
    row = 0
    while row < codes.shape[0]:
        place = places[row]
        stop = row + 1
        while stop < codes.shape[0] and places[stop] == place:
            stop += 1
        if is_line is not None:
            for one in range(row, stop):
                left[one] = _line(
                    codes[one],
                    table,
                    scales[place],
                    zeros[place],
                    has_zeros,
                    is_half,
                    is_wide,
                    values[one],
                )
        else:
            for block in range(scales.shape[1]):
                scale, zero = scales[place, block], zeros[place, block]
                start = block * width
                if (stop - row) * width >= _WORTH_A_TABLE:
                    _multiply_all(
                        table, scale, zero, has_zeros, is_half, is_wide, nan, products
                    )
                    for one in range(row, stop):
                        _look_up(
                            codes[one, start : start + width],
                            products,
                            values[one, start : start + width],
                        )
                else:
                    for one in range(row, stop):
                        left[one] |= _multiply(
                            codes[one, start : start + width],
                            table,
                            scale,
                            zero,
                            has_zeros,
                            is_number,
                            is_half,
                            is_wide,
                            values[one, start : start + width],
                        )
        row = stop


@jit
def _multiply_all(
    table: Array,
    scale: np.float32,
    zero: np.float32,
    has_zeros: Flag,
    is_half: Flag,
    is_wide: Flag,
    nan: int,
    products: Array,
) -> None:
    for i in range(256):
        value = table[i]
        if has_zeros is not None:
            value = np.float32(value - zero)
        value = np.float32(value * scale)
        bits = narrow(value, is_half, is_wide)
        products[i] = bits if value == value else nan  # noqa: PLR0124 - it may be NaN


@jit
def _look_up(codes: Array, products: Array, values: Array) -> None:
    for i in range(codes.size):
        values[i] = products[codes[i]]


@jit
def _multiply(
    codes: Array,
    table: Array,
    scale: np.float32,
    zero: np.float32,
    has_zeros: Flag,
    is_number: Flag,
    is_half: Flag,
    is_wide: Flag,
    values: Array,
) -> np.uint8:
    found = np.uint8(0)
    for i in range(codes.size):
        value = np.float32(codes[i]) if is_number is not None else table[codes[i]]
        if has_zeros is not None:
            value = np.float32(value - zero)
        value = np.float32(value * scale)
        found = np.uint8(found | np.uint8(value != value))  # noqa: PLR0124 - it may be NaN
        values[i] = narrow(value, is_half, is_wide)
    return found


@jit
def _line(
    codes: Array,
    table: Array,
    scales: Array,
    zeros: Array,
    has_zeros: Flag,
    is_half: Flag,
    is_wide: Flag,
    values: Array,
) -> np.uint8:
    found = np.uint8(0)
    for i in range(codes.size):
        value = table[codes[i]]
        if has_zeros is not None:
            value = np.float32(value - zeros[i])
        value = np.float32(value * scales[i])
        found = np.uint8(found | np.uint8(value != value))  # noqa: PLR0124 - it may be NaN
        values[i] = narrow(value, is_half, is_wide)
    return found


@jit
def unpack(words: Array, bits: int, is_rare: Flag, lanes: Array) -> None:
    """Unpack words to lanes of eight codes, one in each byte.

    Args:
        is_rare: whether `bits` is 2, 3, 5 or 6, and not 4.
    """
    packed.unpack(words, bits, is_rare, lanes)
