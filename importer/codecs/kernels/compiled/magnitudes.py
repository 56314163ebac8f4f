"""The largest magnitude of each group, and the scale that follows from it."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.floats import f32_to_e4m3, narrow, widen
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.lanes import columns


@jit
def find_largest(
    source: Array, is_wide: Flag, lowest: int, highest: int, sizes: Array, left: Array
) -> None:
    """Find the largest magnitude of each group, as bits, and flag those outside the domain."""
    length = columns(source, 16, 2)
    for group in range(source.shape[0]):
        largest = _magnitude(source[group, 0], is_wide)
        for i in range(length):
            largest = max(largest, _magnitude(source[group, i], is_wide))
        sizes[group] = largest
    first, last = np.uint32(lowest), np.uint32(highest - 1)
    for i in range(left.size):
        # Zeros are inside.
        bits = np.uint32(sizes[i]) if sizes[i] > 0 else first
        left[i] = np.uint8(0) if max(min(bits, last), first) == bits else np.uint8(1)


@jit
def _magnitude(bits: np.unsignedinteger, is_wide: Flag) -> np.unsignedinteger:
    # Without signs, integers are ordered as floats are.
    if is_wide is None:
        return np.uint16(bits & np.uint16(0x7FFF))
    return np.uint32(bits & np.uint32(0x7FFF_FFFF))


@jit
def e8m0_scales(
    sizes: Array,
    is_half: Flag,
    is_wide: Flag,
    largest_code: np.float32,
    scales: Array,
) -> None:
    """Write the scales: exponents, rounded up, of the ratios of magnitudes to a code."""
    for i in range(scales.size):
        ratio = np.float32(widen(sizes[i], is_half, is_wide) / largest_code)
        ratio = widen(narrow(ratio, is_half, is_wide), is_half, is_wide)
        bits = np.float32(ratio).view(np.uint32)
        scale = np.uint32(np.uint32(bits + np.uint32(0x7F_FFFF)) >> np.uint32(23))
        scales[i] = np.uint8(scale) if bits > 0 else np.uint8(127)


@jit
def e4m3_scales(sizes: Array, is_half: Flag, is_wide: Flag, scales: Array) -> None:
    """Write the scales: the ratio of each largest magnitude to 6, rounded."""
    for i in range(scales.size):
        ratio = np.float32(widen(sizes[i], is_half, is_wide) / np.float32(6))
        ratio = widen(narrow(ratio, is_half, is_wide), is_half, is_wide)
        scales[i] = f32_to_e4m3(ratio, True)
