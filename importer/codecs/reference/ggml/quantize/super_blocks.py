"""Blocks of 256 whose groups have small integers for scales: Q2_K to Q6_K.

A scale is found for each group, then the scales are rounded to integers under one of their own,
and the codes are those that follow from what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks, join, rows
from importer.codecs.reference.ggml.quantize.one_scale import STEPS
from importer.codecs.reference.ggml.quantize.rounding import (
    Integers,
    clipped,
    extreme,
    halves,
    nearest,
    total,
)
from importer.codecs.reference.ggml.quantize.search import (
    Steps,
    descended,
    positive,
    symmetric,
    with_minimum,
)

_BLOCK: Final = 256
_SMALLEST: Final = np.float32(1e-15)


class _Form(NamedTuple):
    """What distinguishes types with minima.

    Attributes:
        group: elements that share a scale.
        last: the largest code.
        last_scale: the largest integer for a scale.
        steps: what is tried where no importance is known.
    """

    group: int
    last: int
    last_scale: int
    steps: Steps


_FORMS: Final[Mapping[str, _Form]] = MappingProxyType(
    {
        "Q2_K": _Form(16, 3, 15, Steps(-0.5, 0.1, 15)),
        "Q4_K": _Form(32, 15, 63, Steps(-1.0, 0.1, 20)),
        "Q5_K": _Form(32, 31, 63, Steps(-0.5, 0.1, 15)),
    }
)


def with_minima(name: str, values: Floats, weights: Floats | None) -> Blocks:
    """Quantize blocks to Q2_K, Q4_K or Q5_K."""
    form = _FORMS[name]
    groups = values.reshape(-1, form.group).T
    if weights is None:
        size = np.abs(groups)
        is_small = name == "Q2_K"
        if not is_small:
            size = np.sqrt(total(groups * groups) / np.float32(form.group)) + size
        found = with_minimum(groups, size, form.last, form.steps, is_squared=not is_small)
        scales, d = _rounded(name, _columns(found.scales, form), form.last_scale)
        minima, dmin = _rounded(name, _columns(found.minima, form), form.last_scale)
    else:
        size = weights.reshape(-1, form.group).T
        found = with_minimum(groups, size, form.last, STEPS)
        sums = _columns(total(size), form)
        made = [
            positive(_columns(numbers, form), sums, form.last_scale)
            for numbers in (found.scales, found.minima)
        ]
        (scales, d), (minima, dmin) = made
    blocks = np.zeros(len(values), LAYOUTS[name])
    blocks["d"], blocks["dmin"] = halves(d), halves(dmin)
    pack = _four_bit_scales if name == "Q2_K" else _six_bit_scales
    if name == "Q5_K":
        scales, minima = np.minimum(scales, 63), np.minimum(minima, 63)
    packed, read_scales, read_minima = pack(*(n.T.astype(np.uint8) for n in (scales, minima)))
    blocks["scales"] = packed
    step = _widened(blocks["d"]) * read_scales.astype(np.float32)
    start = _widened(blocks["dmin"]) * read_minima.astype(np.float32)
    groups = values.reshape(*step.shape, form.group)
    codes = clipped(nearest((groups + start[..., None]) / step[..., None]), 0, form.last)
    kept = found.codes.T.reshape(codes.shape)
    codes = np.where(step[..., None] == 0, kept, codes).reshape(len(values), _BLOCK)
    _store(name, blocks, codes.astype(np.uint8))
    return blocks


def q3_k(values: Floats, weights: Floats | None) -> Blocks:
    """Quantize blocks to Q3_K."""
    blocks = np.zeros(len(values), LAYOUTS["Q3_K"])
    groups = values.reshape(-1, 16).T
    if weights is None:
        found = descended(groups, 4)
        scales = found.scales.reshape(-1, 16).T
        edge = extreme(scales)
        divisor = np.float32(-32) / edge
        numbers = clipped(_signed(nearest(divisor * scales)), -32, 31) + np.int32(32)
        numbers = np.where(edge == 0, np.int32(0), numbers)
        blocks["d"] = halves(np.where(edge == 0, np.float32(0), np.float32(1) / divisor))
    else:
        size = weights.reshape(-1, 16).T
        found = symmetric(groups, size, 4)
        numbers, d = symmetric(
            found.scales.reshape(-1, 16).T, total(size).reshape(-1, 16).T, 32
        )
        blocks["d"] = halves(d)
    packed = numbers.T.astype(np.uint8)
    low, high = packed & np.uint8(15), packed >> np.uint8(4)
    blocks["scales"] = np.concatenate([join(low, 4), join(high, 2)], axis=1)
    step = _widened(blocks["d"]) * (numbers.T - np.int32(32)).astype(np.float32)
    codes = _requantized(values, step, found.codes, 4)
    blocks["hmask"] = join(codes >> np.uint8(2), 1)
    blocks["qs"] = _two_bits(codes & np.uint8(3))
    return blocks


def q6_k(values: Floats, weights: Floats | None) -> Blocks:
    """Quantize blocks to Q6_K."""
    blocks = np.zeros(len(values), LAYOUTS["Q6_K"])
    groups = values.reshape(-1, 16).T
    size = groups * groups if weights is None else weights.reshape(-1, 16).T
    found = symmetric(groups, size, 32)
    scales = found.scales.reshape(-1, 16).T
    edge = extreme(scales)
    divisor = np.float32(-128) / edge
    blocks["d"] = halves(np.float32(1) / divisor)
    numbers = np.minimum(nearest(divisor * scales), np.int32(127)).T.astype(np.int8)
    blocks["scales"] = numbers
    step = _widened(blocks["d"]) * numbers.astype(np.float32)
    codes = _requantized(values, step, found.codes, 32)
    blocks["ql"] = join(rows(codes & np.uint8(15), 2, 128), 4).reshape(-1, 128)
    blocks["qh"] = join(rows(codes >> np.uint8(4), 2, 128), 2).reshape(-1, 64)
    blocks[np.abs(edge) < _SMALLEST] = np.zeros((), LAYOUTS["Q6_K"])
    return blocks


def _columns(numbers: Floats, form: _Form) -> Floats:
    """Return the numbers of groups as columns, one for each block."""
    return numbers.reshape(-1, _BLOCK // form.group).T


def _rounded(name: str, numbers: Floats, last: int) -> tuple[Integers, Floats]:
    """Return integers, and what they are multiplied by, without looking for the best."""
    high = np.fmax(numbers.max(axis=0), np.float32(0))
    is_positive = high > 0
    divisor = np.where(is_positive, np.float32(last) / high, np.float32(0))
    codes = nearest(divisor * numbers) & np.int32(0xFF)
    if name != "Q2_K":
        codes = np.minimum(codes, np.int32(last))
    return np.where(is_positive, codes, 0), np.where(is_positive, high / np.float32(last), 0)


def _four_bit_scales(scales: Blocks, minima: Blocks) -> tuple[Blocks, Blocks, Blocks]:
    """Return the bytes of scales and minima, and both as they are read from there."""
    packed = scales | minima << np.uint8(4)
    return packed, packed & np.uint8(15), packed >> np.uint8(4)


def _six_bit_scales(scales: Blocks, minima: Blocks) -> tuple[Blocks, Blocks, Blocks]:
    """As `_four_bit_scales`; the last four have their upper bits beside the first four."""
    four, six, low, mask = np.uint8(4), np.uint8(6), np.uint8(15), np.uint8(63)
    first = scales[:, :4] | (scales[:, 4:] >> four) << six
    second = minima[:, :4] | (minima[:, 4:] >> four) << six
    third = (scales[:, 4:] & low) | minima[:, 4:] << four
    return (
        np.concatenate([first, second, third], axis=1),
        np.concatenate([first & mask, (third & low) | (first >> six) << four], axis=1),
        np.concatenate([second & mask, third >> four | (second >> six) << four], axis=1),
    )


def _requantized(values: Floats, step: Floats, kept: Integers, half: int) -> Blocks:
    """Return codes from 0 on for signed steps; those that were found where a step is 0."""
    groups = values.reshape(*step.shape, -1)
    codes = clipped(nearest(groups / step[..., None]), -half, half - 1) + np.int32(half)
    codes = np.where(step[..., None] == 0, kept.T.reshape(codes.shape), codes)
    return codes.reshape(len(values), _BLOCK).astype(np.uint8)


def _store(name: str, blocks: Blocks, codes: Blocks) -> None:
    if name == "Q2_K":
        blocks["qs"] = _two_bits(codes)
        return
    blocks["qs"] = join(rows(codes & np.uint8(15), 4, 64), 4).reshape(-1, 128)
    if name == "Q5_K":
        blocks["qh"] = join(codes >> np.uint8(4), 1)


def _two_bits(codes: Blocks) -> Blocks:
    return join(rows(codes, 2, 128), 2).reshape(-1, 64)


def _signed(codes: Integers) -> Integers:
    return codes.astype(np.int8).astype(np.int32)


def _widened(halves_: npt.NDArray[Any]) -> Floats:
    return halves_.astype(np.float32)[:, None]
