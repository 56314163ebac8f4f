"""MXFP4's encoder as mistral.rs runs it: `quantize` in mistralrs-quant/src/mxfp4 of 0.9.5.

Its scale is the largest power of two that is not above a sixth of the largest value, so that
that one is clipped to 6; MLX takes the smallest that is not below.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.minifloats import E2M1_LARGEST
from importer.codecs.spec import QuantSpec

_BIAS: Final = 127
_LAST: Final = 254
_SIGN: Final = np.uint8(8)
_MIDDLES: Final = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], np.float32)


def encode(values: Floats, dtype: str, spec: QuantSpec) -> tuple[Bits, ...]:
    """Return codes and scales; what is halfway between two codes becomes the larger one."""
    del dtype, spec
    largest = np.abs(values).max(axis=1)
    # The logarithm is a float32, too: just below a power of two it is that of the power.
    power = np.log2((largest / E2M1_LARGEST).astype(np.float64)).astype(np.float32)
    exponents = np.clip(np.floor(power), -_BIAS, _LAST - _BIAS)
    exponents = np.where(largest > 0, exponents, 0).astype(np.int32)
    scale = np.ldexp(np.float32(1), exponents)
    quotients = values * (np.float32(1) / scale)[:, None]
    sizes = np.abs(quotients)
    codes = np.zeros(sizes.shape, np.uint8)
    for middle in _MIDDLES:
        codes += sizes >= middle
    return codes | (quotients < 0) * _SIGN, (exponents + _BIAS).astype(np.uint8)
