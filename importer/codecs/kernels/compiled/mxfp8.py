"""MXFP8, compiled: `reference/mxfp.py`, for groups in the domain of ranges.py.

There the division by a power of two is a multiplication, and rounding its result to the
source's dtype changes nothing that is not rounded to 0 afterwards.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import (
    e4m3_to_f32,
    e8m0_to_f32,
    f32_to_e4m3,
    narrow,
    widen,
)
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import blocks, columns
from importer.codecs.kernels.compiled.magnitudes import e8m0_scales, find_largest

_NAN: Final = 0x7F
"""Of codes, without their signs."""


@jit
def encode(
    source: Array,
    is_half: Flag,
    is_wide: Flag,
    lowest: int,
    highest: int,
    sizes: Array,
    codes: Array,
    scales: Array,
    left: Array,
) -> None:
    """Quantize groups.

    Args:
        source: bits, of shape (groups, group size).
        lowest: bits of the first magnitude of the domain, as `highest` is of the first above.
        sizes: scratch of a block.
        left: 1 for each group outside the domain.
    """
    for number in range(blocks(source, sizes)):
        first = number * len(sizes)
        block = source[first : first + len(sizes)]
        part = slice(first, first + len(block))
        find_largest(block, is_wide, lowest, highest, sizes, left[part])
        e8m0_scales(sizes, is_half, is_wide, np.float32(448), scales[part])
        _find_codes(block, is_half, is_wide, scales[part], codes[part])


@jit
def _find_codes(
    source: Array, is_half: Flag, is_wide: Flag, scales: Array, codes: Array
) -> None:
    length = columns(source, 16, 2)
    for group in range(source.shape[0]):
        exponent = np.uint32(np.uint32(254) - np.uint32(scales[group]))
        factor = np.uint32(exponent << np.uint32(23)).view(np.float32)
        for i in range(length):
            value = widen(source[group, i], is_half, is_wide)
            # The ratio of an F16 may be subnormal, and the scale too small by a third.
            codes[group, i] = f32_to_e4m3(np.float32(value * factor), is_half)


@jit
def decode(
    codes: Array,
    scales: Array,
    is_half: Flag,
    is_wide: Flag,
    last_scale: int,
    values: Array,
    left: Array,
) -> None:
    """Undo `encode`, whose arrays these are.

    Args:
        last_scale: the largest byte that is a finite scale.
        left: 1 for each group with a scale or code that is not finite.
    """
    length = columns(values, 16, 2)
    for group in range(values.shape[0]):
        scale = e8m0_to_f32(scales[group])
        scale = widen(narrow(scale, is_half, is_wide), is_half, is_wide)
        largest = np.uint8(0)
        for i in range(length):
            code = codes[group, i]
            size = np.uint8(code & np.uint8(_NAN))
            largest = max(largest, size)
            magnitude = np.float32(e4m3_to_f32(size) * scale).view(np.uint32)
            sign = np.uint32(np.uint32(code & np.uint8(0x80)) << np.uint32(24))
            value = np.uint32(magnitude | sign).view(np.float32)
            values[group, i] = narrow(value, is_half, is_wide)
        is_finite = scales[group] <= last_scale and largest < _NAN
        left[group] = np.uint8(0) if is_finite else np.uint8(1)
