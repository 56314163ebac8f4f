"""The scales that libggml finds for groups of values: those of the smallest weighted error.

Arrays are of shape (elements of a group, groups): a group is a column. Weights say how much an
error counts. All is float32, operations are in the order that is written, and sums go from the
first element to the last. The functions are those of ggml-quants.c in llama.cpp.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml.quantize.rounding import (
    Integers,
    clipped,
    extreme,
    least,
    nearest,
    total,
)

AnyFloats = npt.NDArray[Any]
"""Float32, which type checkers take for float64 after a division."""

_SMALLEST: Final = np.float32(1e-15)
"""Groups whose magnitudes are all below become zeros."""
_SWEEPS: Final = 5
_ONE: Final = np.float32(1)


class Found(NamedTuple):
    """Codes, and what they are multiplied by.

    Attributes:
        codes: of shape (elements of a group, groups).
        scales: of shape (groups,).
    """

    codes: Integers
    scales: Floats


class FoundWithMinimum(NamedTuple):
    """As `Found`; a value is the code times the scale, less the minimum."""

    codes: Integers
    scales: Floats
    minima: Floats


class Steps(NamedTuple):
    """Numbers of codes that are tried: the largest code + first + width * i, up to `last`."""

    first: float
    width: float
    last: int


class _Range(NamedTuple):
    """The first and last code; the first is None where codes are bytes that may wrap around."""

    first: int | None
    last: int


def symmetric(values: Floats, weights: Floats, half: int) -> Found:
    """Find a scale for codes from -half to half - 1, which are returned from 0 on.

    The extreme value becomes -half, or up to nine tenths of a code less or more
    (`make_qx_quants`). The codes of a group of zeros are 0.
    """
    edge = extreme(values)

    def attempt(divisor: Floats) -> tuple[Integers, Floats, Floats]:
        codes = clipped(nearest(divisor * values), -half, half - 1)
        return codes, *_products(values, weights, codes)

    found, products, squares = attempt(np.float32(-half) / edge)
    scales = np.where(squares != 0, products / squares, np.float32(0))
    best = scales * products
    for tenths in (*range(-9, 0), *range(1, 10)):
        count = np.float32(half) + np.float32(0.1) * np.float32(tenths)
        codes, products, squares = attempt(-count / edge)
        is_better = (squares > 0) & (products * products > best * squares)
        found = np.where(is_better, codes, found)
        scales = np.where(is_better, products / squares, scales)
        best = np.where(is_better, scales * products, best)
    is_zero = np.abs(edge) < _SMALLEST
    return Found(
        np.where(is_zero, np.int32(0), found + np.int32(half)),
        np.where(is_zero, np.float32(0), scales),
    )


def descended(values: Floats, half: int) -> Found:
    """As `symmetric`, weighted by squares, by changing one code after the other.

    `make_q3_quants`: a code is replaced by what is best with the others as they are.
    """
    weights, edge = values * values, extreme(values)
    codes = clipped(nearest(np.float32(-half) / edge * values), -half, half - 1)
    sums = _products(values, weights, codes)
    codes, (products, squares) = _descend(values, weights, codes, sums, _Range(-half, half - 1))
    is_zero = np.abs(edge) < _SMALLEST
    scales = np.where(squares > 0, products / squares, np.float32(0))
    return Found(
        np.where(is_zero, np.int32(0), codes + np.int32(half)),
        np.where(is_zero, np.float32(0), scales),
    )


def positive(values: Floats, weights: Floats, last: int) -> Found:
    """Find a scale for codes from 0 to `last` of values that are scales or minima themselves.

    `make_qp_quants`. A code of a negative value is negative; the caller has one byte for it.
    """
    high = np.zeros_like(values[0])
    for value in values:
        high = np.where(high > value, high, value)  # after a NaN begins anew

    def error(codes: Integers, scales: Floats) -> Floats:
        difference = values - scales * codes.astype(np.float32)
        return total(weights * difference * difference)

    divisor: Floats = np.float32(last) / high
    codes = _bytes(nearest(divisor * values))
    best = error(codes, _ONE / divisor)
    for tenths in (*range(-4, 0), *range(1, 5)):
        other: Floats = (np.float32(0.1) * np.float32(tenths) + np.float32(last)) / high
        found = error(_clipped_above(nearest(other * values), last), _ONE / other)
        divisor = np.where(found < best, other, divisor)
        best = np.where(found < best, found, best)
    codes = _clipped_above(nearest(divisor * values), last)
    sums = _products(values, weights, codes)
    codes, (products, squares) = _descend(
        values, weights, _bytes(codes), sums, _Range(None, last)
    )
    is_zero = high < _SMALLEST
    scales = np.where(squares > 0, products / squares, np.float32(0))
    return Found(
        np.where(is_zero, np.int32(0), codes), np.where(is_zero, np.float32(0), scales)
    )


def with_minimum(
    values: Floats, weights: Floats, last: int, steps: Steps, *, is_squared: bool = True
) -> FoundWithMinimum:
    """Find a scale and a minimum for codes from 0 to `last`: `make_qkx2_quants`.

    For each number of codes, least squares give scale and minimum of the codes that follow.

    Args:
        is_squared: whether an error counts by its square, or by its magnitude.
    """
    high, low = values.max(axis=0), least(values)
    low = np.where(low > 0, np.float32(0), low)
    is_flat = high <= low
    sum_weights, sum_values = total(weights), total(weights * values)

    def codes_for(count: np.float32, lowest: Floats) -> Integers:
        return clipped(nearest(count / (high - lowest) * (values - lowest)), 0, last)

    def error(codes: Integers, scales: AnyFloats, lowest: AnyFloats) -> Floats:
        difference: Floats = scales * codes.astype(np.float32) + lowest - values
        return total(weights * (difference * difference if is_squared else np.abs(difference)))

    scales = _ONE / (np.float32(last) / (high - low))
    found = codes_for(np.float32(last), low)
    best = error(found, scales, low)
    for i in range(steps.last + 1):
        count = np.float32(steps.first) + np.float32(steps.width) * np.float32(i)
        codes = codes_for(count + np.float32(last), low)
        weighted = weights * codes.astype(np.float32)
        sum_codes, sum_squares = total(weighted), total(weighted * codes.astype(np.float32))
        sum_products = total(weighted * values)
        divisor = sum_weights * sum_squares - sum_codes * sum_codes
        scale = (sum_weights * sum_products - sum_values * sum_codes) / divisor
        lowest = (sum_squares * sum_values - sum_codes * sum_products) / divisor
        scale = np.where(lowest > 0, sum_products / sum_squares, scale)
        lowest = np.where(lowest > 0, np.float32(0), lowest)
        found_error = error(codes, scale, lowest)
        is_better = (divisor > 0) & (found_error < best)
        found = np.where(is_better, codes, found)
        best = np.where(is_better, found_error, best)
        scales, low = np.where(is_better, scale, scales), np.where(is_better, lowest, low)
    return FoundWithMinimum(
        np.where(is_flat, np.int32(0), found), np.where(is_flat, np.float32(0), scales), -low
    )


def _products(values: Floats, weights: Floats, codes: Integers) -> tuple[Floats, Floats]:
    """Return weighted sums of values times codes, and of squares of codes."""
    numbers = codes.astype(np.float32)
    return total(weights * values * numbers), total(weights * numbers * numbers)


def _descend(
    values: Floats,
    weights: Floats,
    codes: Integers,
    sums: tuple[Floats, Floats],
    limits: _Range,
) -> tuple[Integers, tuple[Floats, Floats]]:
    """Change codes one by one as long as that makes products ** 2 / squares larger.

    Args:
        sums: of products and squares.
    """
    products, squares = sums
    codes = codes.copy()
    for _ in range(_SWEEPS):
        has_changed = False
        for value, weight, code in zip(values, weights, codes, strict=True):
            old = code.astype(np.float32)
            product = products - weight * value * old
            square = squares - weight * old * old
            may_change = product > 0
            if limits.first is None:
                may_change &= square > 0
            new = _clipped_above(nearest(value * square / product), limits.last)
            if limits.first is not None:
                new = np.maximum(new, np.int32(limits.first))
            number = new.astype(np.float32)
            product += weight * value * number
            square += weight * number * number
            changes = may_change & (new != code)
            changes &= product * product * squares > products * products * square
            if limits.first is not None:
                changes &= square > 0
            code[changes] = new[changes] if limits.first is not None else _bytes(new[changes])
            products = np.where(changes, product, products)
            squares = np.where(changes, square, squares)
            has_changed |= bool(changes.any())
        if not has_changed:
            break
    return codes, (products, squares)


def _clipped_above(codes: Integers, last: int) -> Integers:
    return np.minimum(codes, np.int32(last))


def _bytes(codes: Integers) -> Integers:
    return codes & np.int32(0xFF)
