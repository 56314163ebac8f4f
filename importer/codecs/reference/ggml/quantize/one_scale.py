"""Blocks of integers under one scale: Q4_0 to Q8_0, Q1_0, TQ1_0 and TQ2_0."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks, join, rows
from importer.codecs.reference.ggml.quantize.rounding import (
    away,
    extreme,
    halves,
    least,
    reciprocal,
)
from importer.codecs.reference.ggml.quantize.search import Steps, symmetric, with_minimum

STEPS: Final = Steps(-0.9, 0.05, 36)
"""What is tried for a scale and a minimum where importance is known."""
_TRITS: Final = ((0, 32, 5), (160, 16, 5), (240, 4, 4))
"""First element, bytes, and trits of a byte of each part of a block of TQ1_0."""


class _Form(NamedTuple):
    """What distinguishes a type: bits of a code, and whether there is a minimum."""

    bits: int
    has_minimum: bool


_FORMS: Final[Mapping[str, _Form]] = MappingProxyType(
    {
        "Q4_0": _Form(4, has_minimum=False),
        "Q4_1": _Form(4, has_minimum=True),
        "Q5_0": _Form(5, has_minimum=False),
        "Q5_1": _Form(5, has_minimum=True),
    }
)


def q4_0_to_q5_1(name: str, values: Floats, weights: Floats | None) -> Blocks:
    """Quantize blocks of 32: the outermost value, or the two, become the outermost codes."""
    form = _FORMS[name]
    last = (1 << form.bits) - 1
    half = np.float32(1 << (form.bits - 1))
    blocks = np.zeros(len(values), LAYOUTS[name])
    if weights is not None and form.has_minimum:
        found = with_minimum(values.T, weights.T, last, STEPS)
        codes, scales, lowest = found.codes.T, found.scales, -found.minima
    elif weights is not None:
        codes, scales = symmetric(values.T, weights.T, int(half))
        codes, lowest = codes.T, None
    else:
        if form.has_minimum:
            lowest = least(values.T)
            # The difference of two zeros may be -0, but not that of the first zero and itself.
            span = values.max(axis=1) - lowest + np.float32(0)
            scales = span / np.float32(last)
            moved = (values - lowest[:, None]) * reciprocal(scales)[:, None] + np.float32(0.5)
        else:
            lowest = None
            scales = extreme(values.T) / -half
            moved = values * reciprocal(scales)[:, None] + (half + np.float32(0.5))
        codes = np.minimum(_truncated(moved), last)
    blocks["d"] = halves(scales)
    if lowest is not None:
        blocks["m"] = halves(lowest)
    numbers = codes.astype(np.uint8)
    blocks["qs"] = join(numbers & np.uint8(15), 4)
    if form.bits > 4:  # noqa: PLR2004 - what a half of a byte holds
        blocks["qh"] = join(numbers >> np.uint8(4), 1, is_adjacent=True)
    return blocks


def q8_0(values: Floats, weights: Floats | None) -> Blocks:  # noqa: ARG001 - all count alike
    """Quantize blocks of 32: the largest magnitude becomes 127."""
    blocks = np.zeros(len(values), LAYOUTS["Q8_0"])
    scales = np.abs(values).max(axis=1) / np.float32(127)
    blocks["d"] = halves(scales)
    blocks["qs"] = away(values * reciprocal(scales)[:, None])
    return blocks


def tq1_0(values: Floats, weights: Floats | None) -> Blocks:  # noqa: ARG001 - all count alike
    """Quantize blocks of 256 to -1, 0 and 1 times the largest magnitude."""
    blocks = np.zeros(len(values), LAYOUTS["TQ1_0"])
    trits, blocks["d"] = _trits(values)
    parts = []
    for first, count, digits in _TRITS:
        packed = np.zeros((len(values), count), np.uint16)
        for digit in range(5):
            start = first + digit * count
            packed *= np.uint16(3)
            if digit < digits:
                packed += trits[:, start : start + count]
        # As a fraction of 256, rounded up.
        parts.append((packed * np.uint16(256) + np.uint16(242)) // np.uint16(243))
    blocks["qs"] = np.concatenate(parts[:2], axis=1)
    blocks["qh"] = parts[2]
    return blocks


def tq2_0(values: Floats, weights: Floats | None) -> Blocks:  # noqa: ARG001 - all count alike
    """As TQ1_0, in two bits each."""
    blocks = np.zeros(len(values), LAYOUTS["TQ2_0"])
    trits, blocks["d"] = _trits(values)
    blocks["qs"] = join(rows(trits, 2, 128), 2).reshape(-1, 64)
    return blocks


def _trits(values: Floats) -> tuple[Blocks, Blocks]:
    scales = np.abs(values).max(axis=1)
    trits = away(values * reciprocal(scales)[:, None]).astype(np.int8) + np.int8(1)
    return trits.astype(np.uint8), halves(scales)


def _truncated(values: Floats) -> Blocks:
    """Return whole parts; of what no integer holds, 0."""
    return np.where(np.isfinite(values), values, np.float32(0)).astype(np.int32)
