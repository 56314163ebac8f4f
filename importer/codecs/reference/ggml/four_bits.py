"""Blocks whose codes of four bits are places in a table: IQ4_NL, IQ4_XS, MXFP4 and NVFP4."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml.blocks import (
    Blocks,
    Unpacked,
    adjacent,
    rows,
    split,
    widened,
)

IQ4_VALUES: Final = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
"""The integer that each code of IQ4_NL and IQ4_XS stands for."""
E2M1_TWICE: Final = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
"""Twice the E2M1 of each code; as these are integers, code 8 is 0 and not -0."""

_NO_SCALE: Final = 0x7F
_E8M0_BIAS: Final = 127


def unpack_iq4_nl(blocks: Blocks) -> Unpacked:
    """One group of 32."""
    return Unpacked(IQ4_VALUES[split(blocks["qs"], 4)], widened(blocks["d"]))


def unpack_iq4_xs(blocks: Blocks) -> Unpacked:
    """Eight groups of 32, signed scales of 6 bits."""
    codes = rows(split(rows(blocks["qs"], 8, 16), 4), 256)
    shifts = np.arange(0, 16, 2, dtype=np.uint16)
    high = (blocks["scales_h"][:, None] >> shifts) & np.uint16(3)
    scales = adjacent(blocks["scales_l"], 4) | (high << np.uint16(4)).astype(np.uint8)
    signed = scales.astype(np.int8) - np.int8(32)
    return Unpacked(IQ4_VALUES[codes], widened(blocks["d"]) * signed)


def unpack_mxfp4(blocks: Blocks) -> Unpacked:
    """One group of 32 under a power of two; the byte 255 is 2 ** 128, and not NaN."""
    # Half of it, since the codes' values are doubled.
    exponents = blocks["e"].astype(np.int32) - (_E8M0_BIAS + 1)
    scales = np.ldexp(np.float32(1), exponents)[:, None]
    return Unpacked(E2M1_TWICE[split(blocks["qs"], 4)], scales)


def unpack_nvfp4(blocks: Blocks) -> Unpacked:
    """Four groups of 16 under scales of E4M3 without a sign."""
    codes = rows(split(rows(blocks["qs"], 4, 8), 4), 64)
    return Unpacked(E2M1_TWICE[codes], _HALF_SCALES[blocks["d"]])


def _half_scales() -> Floats:
    """Return half of what each byte stands for: its sign is not looked at, and 127 is 0."""
    codes = np.arange(256)
    exponents, fractions = (codes >> 3) & 15, (codes & 7).astype(np.float32)
    normal = np.ldexp(fractions + np.float32(8), exponents - 11)
    scales = np.where(exponents == 0, np.ldexp(fractions, -10), normal)
    scales[_NO_SCALE] = 0
    return scales.astype(np.float32)


_HALF_SCALES: Final = _half_scales()
