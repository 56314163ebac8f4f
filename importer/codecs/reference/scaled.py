"""Codes in blocks, each with a scale and perhaps a zero point: how most foreign types decode.

A value is (code - zero point) * scale: one float32 subtraction, which is exact, and one float32
multiplication. compressed-tensors does both in the dtype of the scale, which gives the same
once the product is rounded to that: float32 has more than twice the digits of BF16 and F16.

The same is computed by `_dequantize` in
compressed_tensors/quantization/lifecycle/forward_helpers.py of 0.20.0, `Fp8Dequantize` in
transformers/integrations/finegrained_fp8.py of 5.23.0, and the `dequantize` methods in
modelopt/torch/quantization/qtensor of 0.47.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats, floats
from importer.codecs.reference.minifloats import (
    E2M1_VALUES,
    E4M3_VALUES,
    E8M0_NAN,
    exponents_of,
    power_of_two,
)

Places = npt.NDArray[np.int64]
"""For each row of codes the row of scales that it belongs to."""

_E5M2_VALUES: Final = floats.widen(np.arange(256, dtype=np.uint16) << np.uint16(8), "F16")
TABLES: Final[Mapping[str, Floats]] = MappingProxyType(
    {
        "F8_E4M3": E4M3_VALUES,
        "F8_E5M2": _E5M2_VALUES,
        "E2M1": np.tile(E2M1_VALUES, 16),
        "I4": np.tile(((np.arange(16) ^ 8) - 8).astype(np.float32), 16),
        "I8": np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32),
        "U8": np.arange(256, dtype=np.float32),
    }
)
"""The value of each byte: of 8 bits, of 4 bits in its lower half, or its number."""


class ScaledCodes(NamedTuple):
    """Codes of some rows, and what they are multiplied by.

    Attributes:
        codes: of shape (rows, columns).
        kind: what a code is, of `TABLES`.
        scales: of shape (scale rows, blocks of a row); the last block may be narrower.
        width: columns of a block.
        zeros: of the same shape as scales, or None where all are 0.
    """

    codes: Codes
    kind: str
    scales: Floats
    width: int
    zeros: Floats | None = None


def decode(found: ScaledCodes, places: Places) -> Floats:
    """Return values of shape (rows, columns), not rounded to another dtype yet.

    Args:
        places: the scale row of each row.
    """
    values = TABLES[found.kind][found.codes]
    columns = found.codes.shape[1]
    if found.zeros is not None:
        values -= np.repeat(found.zeros[places], found.width, axis=1)[:, :columns]
    values *= np.repeat(found.scales[places], found.width, axis=1)[:, :columns]
    # Which NaN a product is depends on the processor.
    values[np.isnan(values)] = np.nan
    return values


def widen_scales(bits: Bits, dtype: str) -> Floats:
    """Return scales of any dtype that they are stored in, exactly.

    Args:
        bits: U8 for the types of 8 bits, of which `F8_E8M0` is a power of two.
    """
    match dtype:
        case "F8_E8M0":
            powers = power_of_two(exponents_of(bits))
            return np.where(bits == E8M0_NAN, np.float32(np.nan), powers)
        case "F8_E4M3":
            return E4M3_VALUES[bits]
        case _:
            return floats.widen(bits, dtype)
