"""Affine scales that are fitted to the values; the bytes are read as those of `affine` are.

A search that no other program defines, so that this is its specification: every step is one
float32 operation, and each sum is taken in the order of the elements. Whoever changes a bit of
the result raises `importer.codecs.spec.CALIBRATION_REVISION`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Codes, Floats, affine, floats
from importer.codecs.reference.floats import narrow, widen
from importer.codecs.spec import Method, QuantSpec

SWEEPS: Final = 2
_MOVES: Final = (-0.1, 0.4, 0.9)
"""Steps by which a candidate moves an end of the range inwards.

Chosen by measurement on normal values, groups of 64: nine candidates and two sweeps give 1.82,
1.28, 0.99, 0.86, 0.87 and 2.19 dB at 2, 3, 4, 5, 6 and 8 bits. Both ends together, as a single
factor would move them, give 1.71, 1.13 and 0.83 dB at 2, 3 and 4 bits with twelve candidates.
"""
_FACTORS: Final = (-0.2, 0.05, 0.3, 0.55, 0.8, 1.05, 1.3, 1.55, 1.8)
"""Steps that a symmetric candidate has fewer in its range."""
CLIPPED: Final = 0.01
"""Of the values of a group at each end, where the method is `percentile`."""
LARGEST: Final = np.float32(2.0**40)
"""Nothing is searched for in a group with such a value, or with a range below its inverse."""

_Flags = npt.NDArray[np.bool_]


class _Line(NamedTuple):
    """A scale and a bias for each group."""

    scale: Floats
    bias: Floats


class _Columns(NamedTuple):
    """Groups of values, each in a column, and what all candidates need to know of them.

    Attributes:
        weights: how much the square of an error counts.
        mass: the sum of the weights.
        low: the least value, and `span` the distance of the largest from it.
        center: what `centered` has less than `values`: the mean, or 0.
        offset: the code of 0 where the line is symmetric, else 0.
    """

    values: Floats
    weights: Floats
    mass: Floats
    low: Floats
    span: Floats
    center: Floats
    centered: Floats
    offset: np.float32
    last_code: np.float32


def candidates(spec: QuantSpec) -> Floats:
    """Return the candidates: of shape (candidates, 2).

    Each is by how many steps the lower end moves inwards, and the length of a step, in units of
    the range; where the line is symmetric 0, and a factor of the scale of `affine_symmetric`.
    """
    if spec.calibration.method is not Method.MSE:
        return np.empty((0, 2), np.float32)
    last_code = (1 << spec.bits) - 1
    if spec.calibration.symmetric:
        rows = [(0.0, last_code / (last_code + move)) for move in _FACTORS]
    else:
        rows = [
            (lower, 1 / (last_code + lower + upper)) for lower in _MOVES for upper in _MOVES
        ]
    return np.array(rows, np.float32)


def zero_code(spec: QuantSpec) -> np.float32:
    """Return the code of 0 in a symmetric line, else 0."""
    return np.float32(1 << spec.bits - 1 if spec.calibration.symmetric else 0)


def percentile(group_size: int) -> tuple[int, np.float32]:
    """Return which of the sorted values a percentile lies behind, and how far."""
    place = CLIPPED * (group_size - 1)
    return int(place), np.float32(place - int(place))


def encode(
    values: Floats, dtype: str, spec: QuantSpec, weights: Floats | None = None
) -> tuple[Bits, ...]:
    """Return codes, scales and biases.

    Args:
        values: of shape (groups, group size).
        dtype: that they came as.
        weights: how much each square of an error counts, of the same shape, in 0 to 1 and with
            a 1 in each group; None where all count alike, which is the same as weights of 1.

    No group has a larger sum of squared errors, each times its weight, than with the scale and
    bias that come first: those of `affine`, or of the narrowest symmetric line that no value is
    beyond. Candidates move the ends of the range. For the codes that a candidate gives, least
    squares has the best line through them: of codes q and values x with mean c, the scale is `X
    / V` and the bias `c - scale * mean(q)`, where `X` is the sum of `q * (x - c)` and `V` that
    of `(q - mean(q)) ** 2`; means and sums are weighted. It lowers the sum of squares by `X * X
    / V`, by which candidates are compared. Of a symmetric line, where `bias = -2 ** (bits - 1)
    * scale`, codes are counted from that of 0, and the mean is taken to be 0. From the best
    candidate two sweeps follow: codes of that line, and the line of these codes. Then the line
    is rounded to `dtype`, as it is stored, and codes are made from what is stored.

    Where the method is `percentile`, the range is from the 1st to the 99th percentile of the
    group, between two values in proportion; what is beyond is clipped.
    """
    if spec.calibration.symmetric or spec.calibration.method is Method.PERCENTILE:
        scale, bias = _narrowest(values, dtype, spec)
        codes = _codes(values.T, _widened(scale, bias, dtype), spec).T.astype(np.uint8)
    else:
        codes, scale, bias = affine.encode(values, dtype, spec)
    tried = candidates(spec)
    inside = _inside(values)
    if not (len(tried) and inside.any()):
        return codes, scale, bias
    first = _widened(scale[inside], bias[inside], dtype)
    if weights is None:
        weights = np.ones_like(values)
    columns = _columns(values[inside], weights[inside], spec)
    line = _search(columns, first, tried, spec)
    found = (narrow(line.scale, dtype), narrow(line.bias, dtype))
    stored = _widened(*found, dtype)
    error = _error(columns, first, spec)
    better = (_error(columns, stored, spec) < error) & (stored.scale != 0)
    scale[inside] = np.where(better, found[0], scale[inside])
    bias[inside] = np.where(better, found[1], bias[inside])
    line = _widened(scale[inside], bias[inside], dtype)
    codes[inside] = _codes(columns.values, line, spec).T.astype(np.uint8)
    return codes, scale, bias


def decode(codes: Codes, scale_parts: Sequence[Bits], dtype: str, spec: QuantSpec) -> Floats:
    """Return the values of codes, as `affine` does."""
    return affine.decode(codes, scale_parts, dtype, spec)


def _inside(values: Floats) -> _Flags:
    high, low = values.max(axis=1), values.min(axis=1)
    span, size = high - low, np.maximum(np.abs(high), np.abs(low))
    return np.asarray((size < LARGEST) & ((span > 1 / LARGEST) | (span == 0)))


def _narrowest(values: Floats, dtype: str, spec: QuantSpec) -> tuple[Bits, Bits]:
    """Return scale and bias of the narrowest line that covers a range."""
    zero, last_code = zero_code(spec), np.float32((1 << spec.bits) - 1)
    low, high = _range(values, spec)
    if not zero:
        width = np.maximum((high - low) / last_code, affine.SMALLEST_STEP)
        return narrow(_plain_nan(width), dtype), narrow(_plain_nan(low), dtype)
    scale = np.maximum(high / (zero - np.float32(1)), -low / zero)
    widest = np.float32(floats.LARGEST[dtype] / zero)
    scale = np.minimum(scale, widest)
    stored = narrow(_plain_nan(np.maximum(scale, affine.SMALLEST_STEP)), dtype)
    return stored, narrow(-zero * widen(stored, dtype), dtype)


def _range(values: Floats, spec: QuantSpec) -> tuple[Floats, Floats]:
    if spec.calibration.method is not Method.PERCENTILE:
        high = np.fmax.reduce(values, axis=1, initial=-np.inf)
        return np.fmin.reduce(values, axis=1, initial=np.inf), high
    ordered = np.sort(values, axis=1)
    first, part = percentile(spec.group_size)
    low = ordered[:, first] + part * (ordered[:, first + 1] - ordered[:, first])
    high = ordered[:, -1 - first] + part * (ordered[:, -2 - first] - ordered[:, -1 - first])
    return low, high


def _plain_nan(values: Floats) -> Floats:
    # Each kind of processor makes another NaN of two infinities.
    return np.where(np.isnan(values), np.float32(np.nan), values)


def _columns(values: Floats, weights: Floats, spec: QuantSpec) -> _Columns:
    columns, weights = np.ascontiguousarray(values.T), np.ascontiguousarray(weights.T)
    low, mass = columns.min(axis=0), _sum(weights)
    zero = zero_code(spec)
    center = np.zeros_like(low) if zero else _sum(weights * columns) / mass
    last_code = np.float32((1 << spec.bits) - 1)
    span = columns.max(axis=0) - low
    return _Columns(
        columns, weights, mass, low, span, center, columns - center, zero, last_code
    )


def _search(columns: _Columns, first: _Line, tried: Floats, spec: QuantSpec) -> _Line:
    best, gain = first, np.zeros_like(columns.low)
    for move, length in tried:
        if columns.offset:
            scale = first.scale * length
            line = _Line(scale, -columns.offset * scale)
        else:
            scale = columns.span * length
            line = _Line(scale, columns.low + move * scale)
        best, gain = _fit(columns, line, best, gain, spec)
    for _ in range(SWEEPS):
        best, gain = _fit(columns, best, best, gain, spec)
    return best


def _fit(
    columns: _Columns, line: _Line, best: _Line, gain: Floats, spec: QuantSpec
) -> tuple[_Line, Floats]:
    """Return the line through the codes of `line` where it gains more than `best` does."""
    codes = _codes(columns.values, line, spec) - columns.offset
    weighted = columns.weights * codes
    squares, product = _sum(weighted * codes), _sum(weighted * columns.centered)
    total = np.zeros_like(gain) if columns.offset else _sum(weighted)
    variance = squares - total * total / columns.mass
    scale = product / variance
    gained = scale * product
    better = (variance > 0) & (gained > gain)
    from_mean = columns.center - scale * (total / columns.mass)
    bias = -columns.offset * scale if columns.offset else from_mean
    found = _Line(np.where(better, scale, best.scale), np.where(better, bias, best.bias))
    return found, np.where(better, gained, gain)


def _codes(columns: Floats, line: _Line, spec: QuantSpec) -> Floats:
    last_code = np.float32((1 << spec.bits) - 1)
    codes = (columns - line.bias) * (np.float32(1) / line.scale)
    return np.rint(np.fmin(np.fmax(codes, np.float32(0)), last_code))


def _error(columns: _Columns, line: _Line, spec: QuantSpec) -> Floats:
    values = columns.values
    error = values - (_codes(values, line, spec) * line.scale + line.bias)
    return _sum(columns.weights * error * error)


def _sum(columns: Floats) -> Floats:
    # Not `sum`, which adds pairwise where there is one group.
    return np.asarray(np.add.accumulate(columns, axis=0)[-1])


def _widened(scale: Bits, bias: Bits, dtype: str) -> _Line:
    return _Line(widen(scale, dtype), widen(bias, dtype))
