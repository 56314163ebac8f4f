"""The scales of groups, compiled: `reference/ggml/quantize/search.py`, a group in each lane.

Arguments of all functions:
    values: float32, of shape (elements, 16): a column is a group.
    weights: how much an error of each counts.
    codes: the codes that are found, from 0 on.
    length: elements of a group.
    found: float32 of shape (rows, 16); `SCALE`, `MINIMUM` and `IS_LEFT` are the rows.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.vector import (
    Mask,
    Vector,
    inverse,
    load,
    magnitude,
    nearest,
    splat,
    store,
    where,
)

SCALE: Final = 0
MINIMUM: Final = 1
IS_LEFT: Final = 2
"""1 where numbers were too large, or of the wrong sign: then numpy has to search."""
SUM: Final = 3
"""Of the weights."""

_ROUNDER: Final = np.float32(3 << 22)
_SMALLEST: Final = np.float32(1e-15)
_LARGEST: Final = np.float32(1 << 21)
"""Up to here the sum with the rounder ends in the nearest integer."""
_BYTE: Final = np.float32(255)
_LEAST: Final = np.float32(-(1 << 22))
_SWEEPS: Final = 5


@jit
def with_minimum(
    values: Array,
    weights: Array,
    codes: Array,
    length: int,
    last_code: np.float32,
    first: np.float32,
    width: np.float32,
    steps: int,
    is_squared: Flag,
    found: Array,
) -> None:
    """Find a scale and a minimum.

    Args:
        first: of the steps, as `width`; `steps` is the number of the last.
    """
    zero, one = splat(np.float32(0)), splat(np.float32(1))
    high = load(values, 0)
    low, sum_weights, sum_values = high, zero, zero
    for i in range(length):
        value, weight = load(values, i), load(weights, i)
        low = where(value < low, value, low)
        high = where(value > high, value, high)
        sum_weights = sum_weights + weight
        sum_values = sum_values + weight * value
    least = low
    low = where(low > zero, zero, low)
    is_sound = high > low
    best_divisor = splat(last_code) / (high - low)
    best_low, scale = low, one / best_divisor
    _find_codes(values, codes, length, best_divisor, low, last_code)
    best = _error(values, weights, codes, length, scale, low, is_squared)
    is_left = _is_large(best_divisor * (high - low))
    start, end = splat(_ROUNDER), splat(np.float32(_ROUNDER + last_code))
    for i in range(steps + 1):
        count = np.float32(np.float32(first + np.float32(width * np.float32(i))) + last_code)
        divisor = splat(count) / (high - low)
        # Products are ordered as the values are: two tell for all.
        is_left = is_left | _is_large(divisor * (high - low))
        is_left = is_left | _is_large(divisor * (least - low))
        sum_codes, sum_squares, sum_products = zero, zero, zero
        for j in range(length):
            value, weight = load(values, j), load(weights, j)
            code = divisor * (value - low) + start
            code = where(code < start, start, code)
            code = where(code > end, end, code) - start
            store(codes, j, code)
            product = weight * code
            sum_codes = sum_codes + product
            sum_squares = sum_squares + product * code
            sum_products = sum_products + product * value
        determinant = sum_weights * sum_squares - sum_codes * sum_codes
        new_scale = (sum_weights * sum_products - sum_values * sum_codes) / determinant
        new_low = (sum_squares * sum_values - sum_codes * sum_products) / determinant
        is_positive = new_low > zero
        new_scale = where(is_positive, sum_products / sum_squares, new_scale)
        new_low = where(is_positive, zero, new_low)
        error = _error(values, weights, codes, length, new_scale, new_low, is_squared)
        is_better = (determinant > zero) & (error < best)
        best = where(is_better, error, best)
        scale = where(is_better, new_scale, scale)
        best_divisor = where(is_better, divisor, best_divisor)
        best_low = where(is_better, low, best_low)
        low = where(is_better, new_low, low)
    # In a group of one value differences are 0, and so will be its codes.
    _find_codes(values, codes, length, where(is_sound, best_divisor, zero), best_low, last_code)
    store(found, SCALE, where(is_sound, scale, zero))
    store(found, MINIMUM, splat(np.float32(-0.0)) - low)
    store(found, IS_LEFT, where(is_left & is_sound, one, zero))
    store(found, SUM, sum_weights)


@jit
def _find_codes(
    values: Array,
    codes: Array,
    length: int,
    divisor: Vector,
    low: Vector,
    last_code: np.float32,
) -> None:
    start, end = splat(_ROUNDER), splat(np.float32(_ROUNDER + last_code))
    for i in range(length):
        code = divisor * (load(values, i) - low) + start
        code = where(code < start, start, code)
        store(codes, i, where(code > end, end, code) - start)


@jit
def _error(
    values: Array,
    weights: Array,
    codes: Array,
    length: int,
    scale: Vector,
    low: Vector,
    is_squared: Flag,
) -> Vector:
    error = splat(np.float32(0))
    for i in range(length):
        difference = scale * load(codes, i) + low - load(values, i)
        size = magnitude(difference) if is_squared is None else difference * difference
        error = error + load(weights, i) * size
    return error


@jit
def _is_large(number: Vector) -> Mask:
    # Also where it is NaN.
    return inverse(magnitude(number) < splat(_LARGEST))


@jit
def positive(
    values: Array,
    weights: Array,
    codes: Array,
    length: int,
    last_code: np.float32,
    found: Array,
) -> None:
    """Find a scale for scales or minima; numpy does it where one of them is negative."""
    zero, one = splat(np.float32(0)), splat(np.float32(1))
    high, last, is_left = zero, splat(last_code), one < zero
    for i in range(length):
        value = load(values, i)
        high = where(high > value, high, value)
        is_left = is_left | inverse(magnitude(value) < splat(np.float32(np.inf)))
        is_left = is_left | (value < zero)
    divisor = last / high
    best = _distance(values, weights, length, divisor, _BYTE)
    for number in range(9):
        tenths = np.float32(number - 4)
        if number == 4:  # noqa: PLR2004 - the first one
            continue
        count = np.float32(np.float32(np.float32(0.1) * tenths) + last_code)
        other = splat(count) / high
        distance = _distance(values, weights, length, other, last_code)
        divisor = where(distance < best, other, divisor)
        best = where(distance < best, distance, best)
    products, squares = zero, zero
    for i in range(length):
        value, weight = load(values, i), load(weights, i)
        code = nearest(divisor * value, splat(_LEAST), last)
        store(codes, i, code)
        products = products + weight * value * code
        squares = squares + weight * code * code
    for _ in range(_SWEEPS):
        for i in range(length):
            value, weight, code = load(values, i), load(weights, i), load(codes, i)
            product = products - weight * value * code
            square = squares - weight * code * code
            may_change = (product > zero) & (square > zero)
            new = nearest(value * square / product, splat(_LEAST), last)
            product = product + weight * value * new
            square = square + weight * new * new
            is_better = product * product * squares > products * products * square
            changes = may_change & is_better & inverse(new == code)
            is_left = is_left | (changes & (new < zero))
            store(codes, i, where(changes, new, code))
            products = where(changes, product, products)
            squares = where(changes, square, squares)
    is_sound = inverse(high < splat(_SMALLEST))
    for i in range(length):
        store(codes, i, where(is_sound, load(codes, i), zero))
    scale = where(squares > zero, products / squares, zero)
    store(found, SCALE, where(is_sound, scale, zero))
    store(found, IS_LEFT, where(is_left, one, zero))


@jit
def _distance(
    values: Array, weights: Array, length: int, divisor: Vector, last_code: np.float32
) -> Vector:
    distance, scale = splat(np.float32(0)), splat(np.float32(1)) / divisor
    for i in range(length):
        value = load(values, i)
        code = nearest(divisor * value, splat(_LEAST), splat(last_code))
        difference = value - scale * code
        distance = distance + load(weights, i) * difference * difference
    return distance
