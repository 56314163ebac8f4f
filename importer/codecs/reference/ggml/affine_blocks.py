"""Codes, scales and biases of the store as GGML's blocks, where these hold them exactly.

The other way around of `importer.codecs.reference.ggml.repacked`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks, join

_ELEMENTS: Final = 32
ZERO: Final[Mapping[str, int]] = MappingProxyType(
    {"Q4_0": 8, "Q4_1": 0, "Q5_0": 16, "Q5_1": 0, "Q8_0": 128}
)
"""The code that stands for a block's smallest number, or for 0 where it has none."""


def exact(name: str, scales: Floats, biases: Floats) -> npt.NDArray[np.bool_]:
    """Return for which groups a type has scale and bias as they are.

    F16 must have both numbers, or the scale alone where the type's bias follows from it.

    Args:
        name: a key of `ZERO`.
        scales: of groups, widened.
        biases: likewise.
    """
    zero = np.float32(ZERO[name])
    with np.errstate(all="ignore"):
        fits = _is_half(scales)
        fits &= biases == -zero * scales if zero else _is_half(biases)
    return fits


def constant(name: str, codes: Codes) -> npt.NDArray[np.bool_]:
    """Return in which groups no code is multiplied, so that any scale will do.

    Args:
        codes: of shape (groups, group size).
    """
    found: npt.NDArray[np.bool_] = (codes == np.uint8(ZERO[name])).all(axis=1)
    return found


def made(name: str, codes: Codes, scales: Floats, biases: Floats) -> Blocks:
    """Return blocks as bytes, of shape (blocks, bytes of a block).

    Args:
        codes: of shape (groups, group size), of as many bits as the type's.
        scales: of groups, widened; one that F16 does not have becomes 0.
        biases: likewise.
    """
    codes = codes.reshape(-1, _ELEMENTS)
    blocks = _scaled(name, len(codes), scales, biases)
    if name == "Q8_0":
        blocks["qs"] = (codes ^ np.uint8(ZERO[name])).view(np.int8)
    else:
        blocks["qs"] = join(codes & np.uint8(15), 4)
    if "qh" in (LAYOUTS[name].names or ()):
        blocks["qh"] = join(codes >> np.uint8(4), 1, is_adjacent=True)
    return blocks.view(np.uint8).reshape(len(blocks), -1)


def made_of_pairs(name: str, packed: Bits, scales: Floats, biases: Floats) -> Blocks:
    """Return the same of codes of 4 bits that are two in a byte, as the store has them."""
    pairs = packed.reshape(-1, _ELEMENTS // 2)
    blocks = _scaled(name, len(pairs), scales, biases)
    blocks["qs"] = _halves_paired(pairs)
    return blocks.view(np.uint8).reshape(len(blocks), -1)


def _scaled(name: str, count: int, scales: Floats, biases: Floats) -> Blocks:
    """Return records of blocks with their scales and offsets, and no codes."""
    times = count // max(len(scales), 1)
    with np.errstate(all="ignore"):
        scales = np.where(_is_half(scales), scales, np.float32(0))
    blocks = np.zeros(count, LAYOUTS[name])
    blocks["d"] = np.repeat(scales, times).astype("<f2")
    if not ZERO[name]:
        blocks["m"] = np.repeat(biases, times).astype("<f2")
    return blocks


def _halves_paired(packed: Bits) -> Bits:
    """Return bytes of a code of a block's first half, and one of its second half above.

    In those that are given neighbors share a byte.
    """
    first, second = packed[:, : _ELEMENTS // 4], packed[:, _ELEMENTS // 4 :]
    low = (first & np.uint8(15)) | (second << np.uint8(4))
    high = (first >> np.uint8(4)) | (second & np.uint8(240))
    joined: Bits = np.stack([low, high], axis=-1).reshape(len(packed), -1)
    return joined


def _is_half(numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which numbers are finite and F16 has exactly."""
    found: npt.NDArray[np.bool_] = np.isfinite(numbers) & (
        numbers.astype(np.float16).astype(np.float32) == numbers
    )
    return found
