"""The values of the four kinds of 8-bit floats of ONNX, and of E2M1."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from importer.codecs.reference import Floats
from importer.codecs.reference.minifloats import E2M1_VALUES
from importer.codecs.reference.packing import unpack_low_first
from store.fs import Buffer


class _Kind(NamedTuple):
    """One kind (ONNX's "Float stored in 8 bits").

    Attributes:
        fraction: bits of it.
        has_infinity: whether the largest exponent is that of infinities and NaNs, as in IEEE.
        is_unsigned_zero: whether what would be -0 is the only NaN (`UZ`).
    """

    fraction: int
    bias: int
    has_infinity: bool = False
    is_unsigned_zero: bool = False


_KINDS: Final = {
    "F8_E4M3": _Kind(3, 7),
    "F8_E4M3FNUZ": _Kind(3, 8, is_unsigned_zero=True),
    "F8_E5M2": _Kind(2, 15, has_infinity=True),
    "F8_E5M2FNUZ": _Kind(2, 16, is_unsigned_zero=True),
}


def widen(data: Buffer, dtype: str) -> Floats:
    """Return the values of floats of 8 bits, or of packed E2M1 (`F4`), exactly."""
    if dtype == "F4":
        return E2M1_VALUES[unpack_low_first(data, 4)]
    return _VALUES[dtype][np.frombuffer(data, np.uint8)]


def _values(kind: _Kind) -> Floats:
    codes = np.arange(128, dtype=np.int32)
    one = 1 << kind.fraction
    exponents, fractions = codes >> kind.fraction, codes & (one - 1)
    least = 1 - kind.bias - kind.fraction
    digits = np.where(exponents == 0, fractions, fractions + one).astype(np.float32)
    values = np.ldexp(digits, np.maximum(exponents - 1, 0) + least)
    if kind.has_infinity:
        values[exponents == exponents.max()] = np.nan
        values[exponents.max() << kind.fraction] = np.inf
    elif not kind.is_unsigned_zero:
        values[-1] = np.nan
    both = np.concatenate([values, -values]).astype(np.float32)
    if kind.is_unsigned_zero:
        both[128] = np.nan
    return both


_VALUES: Final = {dtype: _values(kind) for dtype, kind in _KINDS.items()}
