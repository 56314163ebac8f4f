"""MXFP4 and MXFP8, step by step as mlx 0.32.4 computes them on a CPU.

Each operation is done in the dtype of the source. The scale is the smallest power of two
that makes the group fit; mlx before 0.32.2 took the nearest one and clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from importer.codecs.reference import Bits, Codes, Floats
from importer.codecs.reference.floats import rounded
from importer.codecs.reference.minifloats import (
    E2M1_LARGEST,
    E2M1_VALUES,
    E4M3_LARGEST,
    E4M3_VALUES,
    ceil_exponent,
    exponents_of,
    power_of_two,
    to_e2m1,
    to_e4m3,
    to_e8m0,
)
from importer.codecs.spec import Mode, QuantSpec


def encode(values: Floats, dtype: str, spec: QuantSpec) -> tuple[Bits, ...]:
    """Return codes and scales."""
    is_fp4 = spec.mode is Mode.MXFP4
    largest = np.abs(values).max(axis=1)
    ratio = rounded(largest / (E2M1_LARGEST if is_fp4 else E4M3_LARGEST), dtype)
    exponents = ceil_exponent(ratio)
    scale = rounded(power_of_two(exponents), dtype)
    quotients = rounded(values / scale[:, None], dtype)
    return (to_e2m1 if is_fp4 else to_e4m3)(quotients), to_e8m0(exponents)


def decode(codes: Codes, scale_parts: Sequence[Bits], dtype: str, spec: QuantSpec) -> Floats:
    """Multiply, rounding to `dtype` once."""
    (scales,) = scale_parts
    table = E2M1_VALUES if spec.mode is Mode.MXFP4 else E4M3_VALUES
    scale = rounded(power_of_two(exponents_of(scales)), dtype)
    return rounded(table[codes] * scale[:, None], dtype)
