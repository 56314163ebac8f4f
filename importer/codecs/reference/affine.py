"""Affine quantization, step by step as in mlx/backend/cpu/quantized.cpp of mlx 0.32.4.

Every step is one float32 operation; divisions are divisions, nothing is fused. The rounded
scale and bias are what is stored, but codes are made with the unrounded ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Codes, Floats
from importer.codecs.reference.floats import narrow, rounded, widen
from importer.codecs.spec import QuantSpec

SMALLEST_STEP: Final = np.float32(1e-7)


def encode(values: Floats, dtype: str, spec: QuantSpec) -> tuple[Bits, ...]:
    """Return codes, scales and biases.

    The range of a group is cut into 2 ** bits - 1 steps. The end with the larger magnitude
    becomes the bias, so that it is kept exactly; steps go from there to the other end, and
    their width is adjusted so that zero falls on a code. The scale is thus negative where
    the largest value, and not the smallest, is the one further from zero.
    """
    last_code = np.float32((1 << spec.bits) - 1)
    # fmax and fmin pass over NaNs, as std::max does.
    high = np.fmax.reduce(values, axis=1, initial=-np.inf)
    low = np.fmin.reduce(values, axis=1, initial=np.inf)
    is_low = np.abs(low) > np.abs(high)
    edge = np.where(is_low, low, high)
    step = np.maximum((high - low) / last_code, SMALLEST_STEP)
    step = np.where(is_low, step, -step)

    steps_to_zero = np.rint(edge / step)
    has_bias = steps_to_zero != 0
    scale = np.where(has_bias, edge / np.where(has_bias, steps_to_zero, np.float32(1)), step)
    bias = np.where(has_bias, edge, np.float32(0))
    # Beside an infinity. Of two that are divided, each kind of processor makes another NaN.
    scale = np.where(np.isnan(scale), np.float32(np.nan), scale)

    codes = np.rint((values - bias[:, None]) / scale[:, None])
    codes = np.fmin(np.fmax(codes, np.float32(0)), last_code).astype(np.uint8)
    return codes, narrow(scale, dtype), narrow(bias, dtype)


def decode(codes: Codes, scale_parts: Sequence[Bits], dtype: str, spec: QuantSpec) -> Floats:
    """Multiply and add, rounding to `dtype` after each."""
    del spec
    scale, bias = (widen(part, dtype)[:, None] for part in scale_parts)
    return rounded(rounded(codes.astype(np.float32) * scale, dtype) + bias, dtype)
