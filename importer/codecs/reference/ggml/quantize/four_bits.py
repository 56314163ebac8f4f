"""Blocks whose codes of four bits are places in a table: IQ4_NL, IQ4_XS and MXFP4."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks, join, rows
from importer.codecs.reference.ggml.four_bits import E2M1_TWICE, IQ4_VALUES
from importer.codecs.reference.ggml.quantize.rounding import (
    Integers,
    clipped,
    extreme,
    halves,
    nearest,
    reciprocal,
    total,
)

_NUMBERS: Final = IQ4_VALUES.astype(np.float32)
_TRIED: Final = 7
_SMALLEST: Final = np.float32(1e-15)


def iq4_nl(values: Floats, weights: Floats | None) -> Blocks:
    """Quantize blocks of 32."""
    blocks = np.zeros(len(values), LAYOUTS["IQ4_NL"])
    scales = _scales(values, weights)
    blocks["d"] = halves(scales)
    blocks["qs"] = join(_places(reciprocal(scales)[:, None] * values), 4)
    return blocks


def iq4_xs(values: Floats, weights: Floats | None) -> Blocks:
    """Quantize blocks of 256: eight groups, whose scales become integers of 6 bits."""
    blocks = np.zeros(len(values), LAYOUTS["IQ4_XS"])
    groups = values.reshape(-1, 32)
    scales = _scales(groups, None if weights is None else weights.reshape(-1, 32))
    scales = scales.reshape(-1, 8)
    d = -extreme(scales.T) / np.float32(32)
    blocks["d"] = halves(d)
    numbers = clipped(nearest(reciprocal(d)[:, None] * scales), -32, 31)
    step = reciprocal(d[:, None] * numbers.astype(np.float32))
    codes = _places(step.reshape(-1, 1) * groups)
    blocks["qs"] = join(codes, 4).reshape(-1, 128)
    packed = (numbers + np.int32(32)).astype(np.uint16)
    low = (packed & np.uint16(15)).astype(np.uint8)
    blocks["scales_l"] = join(rows(low, 4, 2), 4).reshape(-1, 4)
    shifts = np.arange(0, 16, 2, dtype=np.uint16)
    blocks["scales_h"] = np.bitwise_or.reduce((packed >> np.uint16(4)) << shifts, axis=1)
    return blocks


def mxfp4(values: Floats, weights: Floats | None) -> Blocks:  # noqa: ARG001 - all count alike
    """Quantize blocks of 32 under the power of two of the largest magnitude.

    Of codes that are equally near the first is taken.
    """
    blocks = np.zeros(len(values), LAYOUTS["MXFP4"])
    largest = np.abs(values).max(axis=1)
    # In float32: what lacks a last digit of a power of two counts as that.
    exponents = np.floor(np.log2(largest.astype(np.float64)).astype(np.float32))
    bytes_ = np.where(largest > 0, exponents - 2 + 127, 0).astype(np.int32).astype(np.uint8)
    scales = np.ldexp(np.float32(1), bytes_.astype(np.int32) - 128)[:, None]
    blocks["e"] = bytes_
    codes = np.zeros(values.shape, np.uint8)
    nearest_ = np.abs(values)
    for code, number in enumerate(E2M1_TWICE):
        distance = np.abs(np.float32(number) * scales - values)
        codes[distance < nearest_] = code
        nearest_ = np.minimum(distance, nearest_)
    blocks["qs"] = join(codes, 4)
    return blocks


def _scales(values: Floats, weights: Floats | None) -> Floats:
    """Return the scale of each group of 32 that has the smallest weighted error of 16 tried."""
    groups = values.T
    size = groups * groups if weights is None else weights.T
    edge = extreme(groups)

    def attempt(divisor: Floats) -> tuple[Floats, Floats]:
        numbers = _NUMBERS[_places(divisor * groups)]
        return total(size * numbers * groups), total(size * numbers * numbers)

    products, squares = attempt(np.float32(1) / (-edge / _NUMBERS[0]))
    scales = np.where(squares > 0, products / squares, np.float32(0))
    best = scales * products
    for number in range(-_TRIED, _TRIED + 1):
        products, squares = attempt((np.float32(number) + _NUMBERS[0]) / edge)
        is_better = (squares > 0) & (products * products > best * squares)
        scales = np.where(is_better, products / squares, scales)
        best = np.where(is_better, scales * products, best)
    return np.where(np.abs(edge) < _SMALLEST, np.float32(0), scales)


def _places(values: Floats) -> Integers:
    """Return the places of the nearest numbers of IQ4; of two equally near ones the upper."""
    above = np.clip(np.searchsorted(_NUMBERS, values, side="right"), 1, len(_NUMBERS) - 1)
    is_lower = values - _NUMBERS[above - 1] < _NUMBERS[above] - values
    return (above - is_lower).astype(np.uint8)
