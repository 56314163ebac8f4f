"""Blocks as the codes, scales and biases of types of the store, where these hold them exactly.

A product of a code and a scale is exact: no code has more than 8 bits, and no scale more than
an F16 and an integer of 6 bits together. So the sum with a bias rounds as libggml's does, or
is exact, too. Where libggml has no offset, the bias is what brings the least code to 0; a zero
then has no sign, while libggml's may be -0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats
from importer.codecs.reference.ggml import unpack
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks, rows, split
from importer.codecs.reference.minifloats import E4M3_NAN

_LEAST: Final[Mapping[str, int]] = MappingProxyType(
    {
        "Q1_0": -1,
        "Q2_0": -1,
        "TQ1_0": -1,
        "TQ2_0": -1,
        "Q4_0": -8,
        "Q5_0": -16,
        "Q8_0": -128,
        "Q8_1": -128,
    }
)
"""The least code of each type without offsets."""
_E8M0_NAN: Final = 255


class Repacked(NamedTuple):
    """Groups of a type of the store.

    Attributes:
        codes: of shape (groups, group size).
        scales: of shape (groups,), F32 for an affine type and else the byte of a float.
        biases: as `scales`; None for a type of floats.
        is_exact: of shape (groups,): False for scales that are not finite, or that the
            store's type does not have.
    """

    codes: Codes
    scales: Floats | Bits
    biases: Floats | None
    is_exact: npt.NDArray[np.bool_]


def affine(name: str, blocks: Blocks, group_size: int) -> Repacked:
    """Return blocks as groups whose values are codes times scales plus biases.

    Args:
        name: of a type of integers whose scales belong to a multiple of `group_size` values.
        blocks: bytes, of shape (blocks, bytes of a block).
    """
    codes, scales, offsets = unpack(name, blocks)
    if offsets is None:
        least = _LEAST[name]
        codes = (codes.astype(np.int16) - np.int16(least)).astype(np.uint8)
        with np.errstate(invalid="ignore"):
            offsets = np.float32(least) * scales
    times = codes.size // scales.size // group_size if scales.size else 1
    scale, bias = (np.repeat(numbers.reshape(-1), times) for numbers in (scales, offsets))
    is_exact = np.isfinite(scale) & np.isfinite(bias)
    return Repacked(codes.reshape(-1, group_size), scale, bias, is_exact)


def mxfp4(blocks: Blocks) -> Repacked:
    """Return blocks of MXFP4 as groups of the store's, with the same bytes for scales.

    The byte 255 is 2 ** 128 in libggml, and NaN elsewhere. Code 8 is 0 in libggml, and -0
    elsewhere.
    """
    records = _records("MXFP4", blocks)
    scales = records["e"]
    codes = split(records["qs"], 4).astype(np.uint8)
    return Repacked(codes, scales, None, scales != _E8M0_NAN)


def nvfp4(blocks: Blocks) -> Repacked:
    """Return blocks of NVFP4 as groups of the store's.

    libggml does not look at the sign of a scale, and takes the byte 127 for 0.
    """
    records = _records("NVFP4", blocks)
    given = records["d"].reshape(-1)
    scales = np.where(given == E4M3_NAN, np.uint8(0), given & np.uint8(E4M3_NAN))
    codes = split(rows(records["qs"], 4, 8), 4).reshape(-1, 16).astype(np.uint8)
    return Repacked(codes, scales, None, scales != E4M3_NAN)


def _records(name: str, blocks: Blocks) -> Blocks:
    return np.ascontiguousarray(blocks).view(LAYOUTS[name])[:, 0]
