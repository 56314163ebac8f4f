"""F8Q8 as mistral.rs computes it: `BlockF8Q8` in mistralrs-quant/src/f8q8/mod.rs of 0.9.5."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.ggml.quantize.rounding import away
from importer.codecs.reference.minifloats import E4M3_VALUES, to_e4m3

LARGEST: Final = np.float32(416)
"""What the crate float8 0.7.0 calls the largest number of E4M3, which is 448."""
_LAST_CODE: Final = np.float32(127)


def decode(blocks: Bits) -> Floats:
    """Return the values of blocks: a byte with a sign times the scale, of which 416 is 1."""
    scales = E4M3_VALUES[blocks[:, 0]] / LARGEST
    return blocks[:, 1:].view(np.int8) * scales[:, None]


def encode(values: Floats) -> Bits:
    """Return blocks of values; codes are made with the scale that is not rounded yet."""
    scales = np.abs(values).max(axis=1) / _LAST_CODE
    inverses = np.where(scales != 0, np.float32(1) / scales, np.float32(0))
    codes = away(values * inverses[:, None])
    blocks = np.empty((len(values), values.shape[1] + 1), np.uint8)
    blocks[:, 0] = to_e4m3(scales * LARGEST)
    # A conversion clips what is out of range, where an infinite inverse leads.
    blocks[:, 1:] = np.clip(codes, -128, 127).astype(np.int8).view(np.uint8)
    return blocks
