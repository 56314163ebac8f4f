"""NVFP4 and MXFP4 with fitted scales; the bytes are read as those of `nvfp4` and `mxfp` are.

A search that no other program defines, so that this is its specification: every step is one
float32 operation, and each sum is taken in the order of the elements. Whoever changes a bit of
the result raises `importer.codecs.spec.CALIBRATION_REVISION`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Codes, Floats, mxfp, nvfp4
from importer.codecs.reference.affine_fitted import LARGEST
from importer.codecs.reference.minifloats import (
    E2M1_VALUES,
    E4M3_NAN,
    E4M3_VALUES,
    exponents_of,
    power_of_two,
    to_e2m1,
)
from importer.codecs.spec import Mode, QuantSpec

_NVFP4_SHIFTS: Final = (0, -1, 1, -2, 2, 3, 4, 5)
"""What is added to the byte that MLX takes; of two equally good ones the first is kept."""
_NO_SCALE: Final = np.float32(np.inf)
_MXFP4_SHIFTS: Final = (0, -1)
"""A larger exponent never helps: MLX's is the smallest one that covers the group."""


def shifts(spec: QuantSpec) -> tuple[int, ...]:
    """Return what is added to the byte of a scale that MLX takes, in the order it is tried."""
    return _NVFP4_SHIFTS if spec.mode is Mode.NVFP4 else _MXFP4_SHIFTS


def last_byte(spec: QuantSpec) -> int:
    """Return the largest byte that is a finite scale."""
    return E4M3_NAN - 1 if spec.mode is Mode.NVFP4 else 254


def encode(
    values: Floats, dtype: str, spec: QuantSpec, weights: Floats | None = None
) -> tuple[Bits, ...]:
    """Return codes and scales; the arguments are those of `affine_fitted.encode`.

    The scale is the byte of the least weighted sum of squared errors among those next to MLX's.
    Each value gets the code that is nearest to its quotient by the scale, in float32; under a
    scale of 0 all codes are 0. So no group has a larger error than with MLX's own byte. A group
    whose squares are not ordinary numbers of float32 is left to MLX.
    """
    encode_own = nvfp4.encode if spec.mode is Mode.NVFP4 else mxfp.encode
    codes, scales = encode_own(values, dtype, spec)
    size = np.abs(values).max(axis=1)
    inside = (size < LARGEST) & (size > 1 / LARGEST)
    if inside.any():
        if weights is None:
            weights = np.ones_like(values)
        found = _search(values[inside], weights[inside], scales[inside], spec)
        codes[inside], scales[inside] = found
    return codes, scales


def _search(values: Floats, weights: Floats, base: Bits, spec: QuantSpec) -> tuple[Codes, Bits]:
    codes, scales, least = np.zeros(values.shape, np.uint8), base, None
    for shift in shifts(spec):
        tried = np.clip(base.astype(np.int32) + shift, 0, last_byte(spec)).astype(np.uint8)
        scale = _scale(tried, spec)[:, None]
        divisor: Floats = np.where(scale > 0, scale, _NO_SCALE)
        found = to_e2m1(values / divisor)
        error = values - E2M1_VALUES[found] * scale
        total = np.add.accumulate(weights * error * error, axis=1)[:, -1]
        if least is None:
            codes, least = found, total
            continue
        better = total < least
        codes = np.where(better[:, None], found, codes)
        scales, least = np.where(better, tried, scales), np.where(better, total, least)
    return codes, scales


def decode(codes: Codes, scale_parts: Sequence[Bits], dtype: str, spec: QuantSpec) -> Floats:
    """Return the values of codes, as the types' own modules do."""
    decode_own = nvfp4.decode if spec.mode is Mode.NVFP4 else mxfp.decode
    return decode_own(codes, scale_parts, dtype, spec)


def _scale(scales: Bits, spec: QuantSpec) -> Floats:
    if spec.mode is Mode.NVFP4:
        return E4M3_VALUES[scales]
    found: Floats = power_of_two(exponents_of(scales))
    return found
