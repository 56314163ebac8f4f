"""The magnitudes that the kernels of floating types take."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from importer.codecs.reference import floats

_LOWEST: Final = 2.0**-100
_HIGHEST: Final = 2.0**30


@functools.cache
def domain(dtype: str) -> tuple[int, int]:
    """Return the range of the bits of the largest magnitude of a group that a kernel takes.

    The first is inside, the second outside. Below, scales wrap around and quotients are
    subnormal; above, distances to several codes are the same number. The weights of models are
    inside, and so are zeros.
    """
    lowest, highest = floats.narrow(np.array([_LOWEST, _HIGHEST], np.float32), dtype)
    return int(lowest), int(highest)


def last_e8m0(dtype: str) -> int:
    """Return the byte of the largest power of two that `dtype` has."""
    return 127 + 15 if dtype == "F16" else 127 + 127
