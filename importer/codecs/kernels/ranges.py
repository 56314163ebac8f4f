"""The magnitudes that the kernels of floating types take."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from importer.codecs.reference import floats

_LOWEST: Final = 2.0**-100
_LOWEST_SEARCHED: Final = 2.0**-39
_HIGHEST: Final = 2.0**30


@functools.cache
def domain(dtype: str) -> tuple[int, int]:
    """Return the range of the bits of the largest magnitude of a group that a kernel takes.

    The first is inside, the second outside. Below, scales wrap around and quotients are
    subnormal; above, distances to several codes are the same number. The weights of models are
    inside, and so are zeros.
    """
    return _bits(_LOWEST, dtype), _bits(_HIGHEST, dtype)


@functools.cache
def searched(dtype: str) -> tuple[int, int]:
    """Return the same range where scales are searched for: squares are ordinary numbers."""
    return _bits(_LOWEST_SEARCHED, dtype), _bits(_HIGHEST, dtype)


def last_e8m0(dtype: str) -> int:
    """Return the byte of the largest power of two that `dtype` has."""
    return 127 + 15 if dtype == "F16" else 127 + 127


def _bits(value: float, dtype: str) -> int:
    return int(floats.narrow(np.array([value], np.float32), dtype)[0])
