"""Logarithms to base 2 in float32: just below a power of two, they are that of the power."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from importer.codecs.kernels.kinds import Memory

_DIGITS: Final = 1 << 23
_EXPONENTS: Final = 256
_LAST: Final = 256
"""How many of the last digits are looked at."""


@functools.cache
def rounded_up() -> Memory:
    """Return for each exponent the digits from which on a logarithm is the next power's."""
    digits = np.arange(_DIGITS - _LAST, _DIGITS, dtype=np.uint32)
    exponents = np.arange(1, 255, dtype=np.uint32)[:, None]
    numbers = (exponents << np.uint32(23) | digits).view(np.float32)
    logarithms = np.log2(numbers.astype(np.float64)).astype(np.float32)
    reached = logarithms >= exponents.astype(np.float32) - np.float32(126)
    first = np.full(_EXPONENTS, _DIGITS, np.uint32)
    first[1:255] -= np.count_nonzero(reached, axis=1).astype(np.uint32)
    return Memory(first)
