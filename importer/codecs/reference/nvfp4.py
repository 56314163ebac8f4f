"""NVFP4 without a scale of the whole tensor, step by step as mlx 0.32.4 computes it on a CPU.

The quotient of value and scale is rounded to the dtype of the source, but its distances to
the sixteen codes are float32, since MLX multiplies by a float32 1 before it compares.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from importer.codecs.reference import Bits, Codes, Floats
from importer.codecs.reference.floats import rounded
from importer.codecs.reference.minifloats import (
    E2M1_LARGEST,
    E2M1_VALUES,
    E4M3_VALUES,
    to_e2m1,
    to_e4m3,
)
from importer.codecs.spec import QuantSpec


def encode(values: Floats, dtype: str, spec: QuantSpec) -> tuple[Bits, ...]:
    """Return codes and scales."""
    del spec
    largest = np.abs(values).max(axis=1)
    scales = to_e4m3(rounded(largest / E2M1_LARGEST, dtype))
    # A scale of 0 makes quotients of infinity or NaN, and these codes of 0.
    quotients = rounded(values / E4M3_VALUES[scales][:, None], dtype)
    return to_e2m1(quotients), scales


def decode(codes: Codes, scale_parts: Sequence[Bits], dtype: str, spec: QuantSpec) -> Floats:
    """Multiply, rounding to `dtype` once."""
    del spec
    (scales,) = scale_parts
    scale = rounded(E4M3_VALUES[scales], dtype)
    return rounded(E2M1_VALUES[codes] * scale[:, None], dtype)
