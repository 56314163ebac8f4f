"""Casts by compiled code, where every result is finite."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import flag
from importer.codecs.reference import Bits
from importer.codecs.reference.floats import INFINITY

_round_all: Final = Function("cast", "round_all")


def narrowed(source: Bits, dtype: str, wanted: str) -> Bits | None:
    """Return bits of F32 or BF16 as F16 or BF16; None where a result is not finite."""
    bits = np.empty(len(source), np.uint16)
    largest = np.zeros(1, np.uint16)
    _round_all(source, flag(dtype == "F32"), flag(wanted == "F16"), bits, largest)
    return bits if largest[0] < INFINITY[wanted] else None
