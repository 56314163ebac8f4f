"""ONNX's DequantizeLinear in numpy: `(x - x_zero_point) * x_scale`, in the type of the scale.

Equal to onnxruntime's CPU code, which computes in float32; integers are subtracted as integers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from importer.codecs.reference import Bits, Floats, float8, floats
from store.fs import Buffer

INTEGERS: Final = {
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "I32": "<i4",
}
"""The dtypes of codes that are integers, as numpy calls them."""

Numbers = np.ndarray[Any, Any]
"""Integers of 64 bits, or float32."""


def codes(data: Buffer, dtype: str) -> Numbers:
    """Return codes as numbers."""
    if dtype in INTEGERS:
        return np.frombuffer(data, INTEGERS[dtype]).astype(np.int64)
    return float8.widen(data, dtype)


def scales(data: Buffer, dtype: str) -> Floats:
    """Return scales of F32, F16 or BF16 as float32."""
    return floats.widen(floats.read(data, dtype), dtype)


def dequantize(x: Numbers, zero: Numbers | None, scale: Floats, dtype: str) -> Bits:
    """Return the values of codes, as bits of `dtype`; shapes broadcast."""
    centered = x if zero is None else x - zero
    with np.errstate(over="ignore", invalid="ignore"):
        return floats.narrow(centered.astype(np.float32) * scale, dtype)
