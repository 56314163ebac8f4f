"""Sums over source and decoded values by compiled code, as in `reference/metrics.py`."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels import Bounds
from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import flag
from importer.codecs.reference import Bits
from importer.codecs.reference.metrics import LANES, Sums

_add: Final = Function("metrics", "add")
_count: Final = Function("metrics", "count")


def add(sums: Sums, source: Bits, decoded: Bits, dtype: str, bounds: Bounds) -> None:
    """Add some groups of bits of `dtype`, of shape (groups, group size)."""
    is_half, is_wide = flag(dtype == "F16"), flag(dtype == "F32")
    most = np.zeros(LANES)
    _add(source.reshape(-1), decoded.reshape(-1), is_half, is_wide, sums.lanes, most)
    sums.largest = max(sums.largest, *most.tolist())
    counts = np.zeros(2, np.int64)
    _count(source, decoded, is_half, is_wide, *bounds, counts)
    sums.clipped += int(counts[0])
    sums.zeroed += int(counts[1])
