"""How GPTQ and AWQ pack codes and zero points, and what values they stand for.

Sources: GPTQModel 7.7.0 (`nn_modules/qlinear`, `utils/planar_packing.py`, `utils/model.py`,
`quantization/awq/utils/packing_utils.py`) and AutoAWQ 0.2.9 (`modules/linear`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats, packing

Groups = npt.NDArray[np.uint32]
"""The number of the group of each column."""


@unique
class Packing(StrEnum):
    """How codes lie in words of 32 bits, 32 codes in as many words as a code has bits.

    STREAM: one after the other from the lowest bit, also across words.
    PLANES: the lowest 4 or 2 bits of all, then those above; no field crosses a word.
    INTERLEAVED: of 4 bits, eight in a word, in the order 0, 2, 4, 6, 1, 3, 5, 7.
    """

    STREAM = "stream"
    PLANES = "planes"
    INTERLEAVED = "interleaved"


PLANES: Final[Mapping[int, tuple[tuple[int, int], ...]]] = MappingProxyType(
    {
        3: ((2, 0), (1, 2)),
        5: ((4, 0), (1, 4)),
        6: ((4, 0), (2, 4)),
        7: ((4, 0), (2, 4), (1, 6)),
    }
)
"""Of codes of so many bits: the width of each plane, and its lowest bit in a code."""

PLACES: Final = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where each of eight interleaved codes is in its word."""

_WORD: Final = 32
_ACROSS_WORDS: Final = 3
"""Bits of zero points that are decremented one by one, and not with their word."""


def unpack(words: Bits, bits: int, way: Packing) -> Codes:
    """Return the codes of words of shape (rows, words): all that words have room for."""
    missing = -words.shape[1] % bits
    if missing:  # the last block is not full
        words = np.pad(words, ((0, 0), (0, missing)))
    match way:
        case Packing.STREAM:
            return packing.unpack(np.ascontiguousarray(words), bits)
        case Packing.INTERLEAVED:
            codes = packing.unpack(np.ascontiguousarray(words), bits)
            return codes.reshape(-1, len(PLACES))[:, PLACES].reshape(codes.shape)
        case Packing.PLANES:
            return _unpack_planes(words, bits)


def _unpack_planes(words: Bits, bits: int) -> Codes:
    blocks = words.reshape(len(words), -1, bits)
    codes = np.zeros((*blocks.shape[:2], _WORD), np.uint8)
    first = 0
    for width, lowest in PLANES[bits]:
        plane = np.ascontiguousarray(blocks[:, :, first : first + width, None])
        shifts = np.arange(0, _WORD, width, dtype=np.uint32)
        fields = (plane >> shifts) & np.uint32((1 << width) - 1)
        codes |= (fields.reshape(codes.shape) << np.uint32(lowest)).astype(np.uint8)
        first += width
    return codes.reshape(len(words), -1)


def zero_points(words: Bits, bits: int, way: Packing, *, less_one: bool) -> Codes:
    """Return the zero points of words of shape (groups, words).

    Args:
        less_one: whether they are stored less one, as in GPTQ's first version. GPTQModel
            subtracts and adds that in whole words, where a zero borrows from its neighbour;
            only of 3 bits, whose fields cross words, in each field.
    """
    if less_one and bits != _ACROSS_WORDS:
        ones = sum(1 << at for at in range(0, _WORD, bits))
        words = words + np.uint32(ones)  # modulo 2 ** 32
    zeros = unpack(words, bits, way)
    if less_one and bits == _ACROSS_WORDS:
        zeros = (zeros + np.uint8(1)) & np.uint8((1 << bits) - 1)
    return zeros


def dequantize(codes: Codes, zeros: Floats, scales: Floats, groups: Groups) -> Floats:
    """Return `(code - zero) * scale`, which is exact for scales of F16 and BF16.

    Args:
        codes: of shape (rows, columns).
        zeros: of shape (rows, groups), as `scales`.
        groups: of the columns.
    """
    values = codes.astype(np.float32)
    values -= zeros[:, groups]
    values *= scales[:, groups]
    return values
