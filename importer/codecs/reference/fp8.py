"""FP8's encoder as mistral.rs runs it: `FP8Linear::quantize` in fp8/quantize.rs of 0.9.5.

Every step is an operation in BF16, to which the values are rounded first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Codes, Floats
from importer.codecs.reference.f8q8 import LARGEST
from importer.codecs.reference.floats import rounded
from importer.codecs.reference.minifloats import to_e4m3

_DTYPE: Final = "BF16"


def largest_of(values: Floats) -> np.float32:
    """Return the largest magnitude among values in BF16."""
    return np.float32(np.abs(rounded(values, _DTYPE)).max(initial=0))


def scale_of(largest: float) -> np.float32:
    """Return what values are multiplied by: so that the largest is 416, but 416 at most."""
    with np.errstate(all="ignore"):
        inverse = rounded(np.float32(1) / np.array([largest], np.float32), _DTYPE)
        (scale,) = rounded(inverse * LARGEST, _DTYPE)
    return np.float32(min(scale, LARGEST))


def encode(values: Floats, scale: np.float32) -> Codes:
    """Return values times a scale in E4M3."""
    return to_e4m3(rounded(rounded(values, _DTYPE) * scale, _DTYPE))
