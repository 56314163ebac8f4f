"""Sixteen groups as the lanes of vectors, and how much an error of each value counts.

Arguments of all functions:
    tile: float32, of shape (elements of a group, 16).
    groups: float32, of shape (groups, elements of a group).
    first: number of the group in the first lane; where groups end, lanes repeat the last one.
"""

# ruff: noqa: PLR0913, PLR0917 - a kernel has as many parameters as arrays

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.kernels.compiled.floats import widen
from importer.codecs.kernels.compiled.ggml.search import SUM
from importer.codecs.kernels.compiled.jit import Array, Flag, jit
from importer.codecs.kernels.compiled.vector import load, magnitude, root, splat, store

LANES: Final = 16


@jit
def widen_all(source: Array, is_half: Flag, values: Array) -> None:
    """Write the values of F16 or BF16 as float32: infinity for what is not finite."""
    for i in range(source.size):
        value = widen(source[i], is_half, None)
        # An infinity or NaN of F16 is widened to a number, and numpy has to see such rows.
        is_finite = is_half is None or abs(value) < np.float32(2**16)
        values[i] = value if is_finite else np.float32(np.inf)


@jit
def fill(groups: Array, first: int, tile: Array) -> None:
    """Write the values of groups."""
    for lane in range(LANES):
        group = groups[min(first + lane, len(groups) - 1)]
        for i in range(len(group)):
            tile[i, lane] = group[i]


@jit
def spread(numbers: Array, count: int, tile: Array) -> None:
    """Write `count` numbers of each of sixteen blocks."""
    for lane in range(LANES):
        for i in range(count):
            tile[i, lane] = numbers[lane * count + i]


@jit
def keep(tile: Array, first: int, codes: Array) -> None:
    """Write codes of shape (groups, elements), from those in lanes."""
    for lane in range(min(LANES, len(codes) - first)):
        group = codes[first + lane]
        for i in range(len(group)):
            group[i] = np.uint8(np.int32(tile[i, lane]))


@jit
def keep_line(line: Array, first: int, numbers: Array) -> None:
    """Write a number of each group."""
    for lane in range(min(LANES, numbers.size - first)):
        numbers[first + lane] = line[lane]


@jit
def weigh_by_size(tile: Array, length: int, has_mean: Flag, weights: Array) -> None:
    """Weigh by magnitude; where `has_mean`, plus the root of the mean square."""
    mean = splat(np.float32(0))
    if has_mean is not None:
        for i in range(length):
            value = load(tile, i)
            mean = mean + value * value
        mean = root(mean / splat(np.float32(length)))
    for i in range(length):
        store(weights, i, mean + magnitude(load(tile, i)))


@jit
def weigh_by_square(tile: Array, length: int, weights: Array) -> None:
    """Weigh by the square."""
    for i in range(length):
        value = load(tile, i)
        store(weights, i, value * value)


@jit
def weigh_by_importance(
    tile: Array,
    importance: Array,
    offset: int,
    energies: Array,
    first: int,
    groups: int,
    length: int,
    found: Array,
    weights: Array,
) -> None:
    """Weigh by the importance of columns, times the root of the square and an energy.

    Args:
        importance: of each column of a row.
        offset: column of the first of the groups.
        energies: of blocks or rows, each of the same number of groups.
        found: scratch.
    """
    line = found[0]
    for lane in range(LANES):
        number = min(first + lane, groups - 1)
        line[lane] = energies[number * energies.size // groups]
        start = (offset + number * length) % importance.size
        for i in range(length):
            weights[i, lane] = importance[start + i]
    energy = load(found, 0)
    for i in range(length):
        value = load(tile, i)
        store(weights, i, load(weights, i) * root(energy + value * value))


@jit
def take_importance(importance: Array, offset: int, length: int, weights: Array) -> None:
    """Weigh sixteen groups by the importance of columns alone."""
    for lane in range(LANES):
        start = (offset + lane * length) % importance.size
        for i in range(length):
            weights[i, lane] = importance[start + i]


@jit
def sum_up(weights: Array, length: int, found: Array) -> None:
    """Write the sums of weights."""
    total = splat(np.float32(0))
    for i in range(length):
        total = total + load(weights, i)
    store(found, SUM, total)


@jit
def find_energies(spans: Array, factor: np.float32, energies: Array) -> None:
    """Write mean squares, times a factor."""
    count, last = np.float32(spans.shape[1]), len(spans) - 1
    for quarter in range((len(spans) + 3) // 4):
        # A sum waits for the one before it, so that four together take the time of one.
        first = 4 * quarter
        a, b = spans[first], spans[min(first + 1, last)]
        c, d = spans[min(first + 2, last)], spans[min(first + 3, last)]
        sum_a = sum_b = sum_c = sum_d = np.float32(0)
        for i in range(spans.shape[1]):
            sum_a = np.float32(sum_a + np.float32(a[i] * a[i]))
            sum_b = np.float32(sum_b + np.float32(b[i] * b[i]))
            sum_c = np.float32(sum_c + np.float32(c[i] * c[i]))
            sum_d = np.float32(sum_d + np.float32(d[i] * d[i]))
        for j, total in enumerate((sum_a, sum_b, sum_c, sum_d)):
            energies[min(first + j, last)] = np.float32(np.float32(factor * total) / count)
