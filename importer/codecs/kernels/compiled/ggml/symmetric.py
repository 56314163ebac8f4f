"""Scales of signed codes, compiled: of `search.py`, which says what the arguments are."""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.ggml.search import IS_LEFT, SCALE
from importer.codecs.kernels.compiled.jit import Array, jit
from importer.codecs.kernels.compiled.vector import (
    Vector,
    inverse,
    is_any,
    load,
    magnitude,
    nearest,
    splat,
    store,
    where,
)

_ROUNDER: Final = np.float32(3 << 22)
_SMALLEST: Final = np.float32(1e-15)
_SWEEPS: Final = 5
_TRIED: Final = 7


@jit
def symmetric(
    values: Array, weights: Array, codes: Array, length: int, half: np.float32, found: Array
) -> None:
    """Find a scale for codes from -half to half - 1."""
    zero = splat(np.float32(0))
    edge = _edge(values, length)
    best_divisor, scale, best = zero, zero, zero
    start = splat(np.float32(_ROUNDER - half))
    end = splat(np.float32(np.float32(_ROUNDER + half) - np.float32(1)))
    middle = splat(_ROUNDER)
    for number in range(20):
        # The first is the extreme value itself.
        tenths = np.float32(0) if number == 0 else np.float32(number - 10)
        if number == 10:  # noqa: PLR2004 - again
            continue
        count = np.float32(half + np.float32(np.float32(0.1) * tenths))
        divisor = splat(np.float32(-count)) / edge
        products, squares = zero, zero
        for i in range(length):
            value, weight = load(values, i), load(weights, i)
            code = divisor * value + middle
            code = where(code < start, start, code)
            code = where(code > end, end, code) - middle
            products = products + weight * value * code
            squares = squares + weight * code * code
        if number == 0:
            scale = where(inverse(squares == zero), products / squares, zero)
            best, best_divisor = scale * products, divisor
        else:
            is_better = (squares > zero) & (products * products > best * squares)
            scale = where(is_better, products / squares, scale)
            best = where(is_better, scale * products, best)
            best_divisor = where(is_better, divisor, best_divisor)
    is_sound = inverse(magnitude(edge) < splat(_SMALLEST))
    for i in range(length):
        code = best_divisor * load(values, i) + middle
        code = where(code < start, start, code)
        code = where(code > end, end, code) - start
        store(codes, i, where(is_sound, code, zero))
    store(found, SCALE, where(is_sound, scale, zero))
    store(found, IS_LEFT, zero)


@jit
def descended(values: Array, codes: Array, length: int, half: np.float32, found: Array) -> None:
    """Find a scale, weighted by squares, by changing one code after the other."""
    zero, one = splat(np.float32(0)), splat(np.float32(1))
    first, last = splat(np.float32(-half)), splat(np.float32(half - np.float32(1)))
    edge = _edge(values, length)
    divisor = first / edge
    products, squares = zero, zero
    for i in range(length):
        value = load(values, i)
        code = nearest(divisor * value, first, last)
        store(codes, i, code)
        weight = value * value
        products = products + weight * value * code
        squares = squares + weight * code * code
    for _ in range(_SWEEPS):
        has_changed = one < zero
        for i in range(length):
            value, code = load(values, i), load(codes, i)
            weight = value * value
            product = products - weight * value * code
            square = squares - weight * code * code
            may_change = product > zero
            new = nearest(value * square / product, first, last)
            product = product + weight * value * new
            square = square + weight * new * new
            is_better = product * product * squares > products * products * square
            changes = may_change & is_better & (square > zero) & inverse(new == code)
            store(codes, i, where(changes, new, code))
            products = where(changes, product, products)
            squares = where(changes, square, squares)
            has_changed = has_changed | changes
        if not is_any(has_changed):
            break
    is_sound = inverse(magnitude(edge) < splat(_SMALLEST))
    for i in range(length):
        store(codes, i, where(is_sound, load(codes, i) - first, zero))
    scale = where(squares > zero, products / squares, zero)
    store(found, SCALE, where(is_sound, scale, zero))
    store(found, IS_LEFT, zero)


@jit
def uneven(
    values: Array,
    weights: Array,
    length: int,
    numbers: Array,
    middles: Array,
    found: Array,
) -> None:
    """Find a scale for codes that stand for numbers which are not evenly spaced.

    Args:
        numbers: float32, in ascending order.
        middles: between two of them.
    """
    zero, lowest = splat(np.float32(0)), splat(numbers[0])
    edge = _edge(values, length)
    scale, best = zero, zero
    for tried in range(2 * _TRIED + 2):
        if tried == 0:
            divisor = splat(np.float32(1)) / ((splat(np.float32(-0.0)) - edge) / lowest)
        else:
            count = np.float32(np.float32(tried - 1 - _TRIED) + numbers[0])
            divisor = splat(count) / edge
        products, squares = zero, zero
        for i in range(length):
            value, weight = load(values, i), load(weights, i)
            place, number = divisor * value, lowest
            for k in range(len(middles)):
                number = where(place < splat(middles[k]), number, splat(numbers[k + 1]))
            products = products + weight * number * value
            squares = squares + weight * number * number
        if tried == 0:
            scale = where(squares > zero, products / squares, zero)
            best = scale * products
        else:
            is_better = (squares > zero) & (products * products > best * squares)
            scale = where(is_better, products / squares, scale)
            best = where(is_better, scale * products, best)
    is_sound = inverse(magnitude(edge) < splat(_SMALLEST))
    store(found, SCALE, where(is_sound, scale, zero))
    store(found, IS_LEFT, zero)


@jit
def _edge(values: Array, length: int) -> Vector:
    """Return the number of the largest magnitude, the first of several."""
    edge, largest = splat(np.float32(0)), splat(np.float32(0))
    for i in range(length):
        value = load(values, i)
        size = magnitude(value)
        edge = where(size > largest, value, edge)
        largest = where(size > largest, size, largest)
    return edge
