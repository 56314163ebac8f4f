"""Weights to quantize: ordinary ones, any bits, and every edge that is known."""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import floats
from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, Method, Mode, calibrated

DTYPES: Final = ("BF16", "F16", "F32")
CONVERTED: Final = ("F64", "F8_E4M3", "F8_E5M2")
"""Dtypes whose values become another dtype first."""
ROW: Final = 128
"""Elements of a row: whole groups of every size."""

_INFINITY: Final = {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F80_0000}
_FRACTION: Final = {"BF16": 7, "F16": 10, "F32": 23}


SPECS: Final = tuple(
    spec._replace(group_size=size)
    for spec in QUANT_TYPES.values()
    for size in GROUP_SIZES[spec.mode]
)
"""Every type with every group size that it can have."""


def _fitted(name, dtype, method, *, symmetric=False):
    return calibrated(QUANT_TYPES[name], method, symmetric=symmetric), dtype


FITTED: Final = (
    *((calibrated(spec, Method.MSE), "BF16") for spec in SPECS if spec.mode is not Mode.MXFP8),
    _fitted("int4", "F16", Method.MSE),
    _fitted("int3", "F32", Method.MSE),
    _fitted("nvfp4", "F32", Method.MSE),
    _fitted("int4", "BF16", Method.MSE, symmetric=True),
    _fitted("int8", "BF16", Method.MINMAX, symmetric=True),
    _fitted("int2", "BF16", Method.PERCENTILE),
    _fitted("int4", "F32", Method.PERCENTILE, symmetric=True),
)
"""Types whose scales are searched for, and the dtype of the values: each takes compiling."""


def spec_id(spec):
    """What pytest calls a type."""
    return f"{spec.name}-{spec.group_size}"


def ordinary(dtype, rows, rng):
    """Weights as models have them: normal, each row at a scale of its own."""
    scales = np.exp2(rng.integers(-12, 6, (rows, 1))).astype(np.float32)
    return floats.narrow(rng.standard_normal((rows, ROW), np.float32) * scales, dtype)


def any_bits(dtype, rows, rng):
    """All finite bit patterns alike."""
    bits = rng.integers(0, 2 * _INFINITY[dtype] + 2 ** (_FRACTION[dtype] + 1), (rows, ROW))
    return _finite(bits.astype(floats.STORED[dtype]), dtype)


def same_sizes(dtype, rows, rng):
    """Any fractions and signs, and exponents that are near each other in a row."""
    fraction = _FRACTION[dtype]
    bits = any_bits(dtype, rows, rng)
    last = (_INFINITY[dtype] >> fraction) - 1
    exponents = rng.integers(0, last + 1, (rows, 1)) - rng.integers(0, 4, (rows, ROW))
    exponents = np.clip(exponents, 0, last).astype(bits.dtype) << bits.dtype.type(fraction)
    return (bits & ~bits.dtype.type(_INFINITY[dtype])) | exponents


def edges(dtype, rng):
    """Rows that are hard: each of one kind, at every scale of the dtype."""
    rows = [row for scale in _scales(dtype) for row in _rows_at(scale, rng)]
    with np.errstate(over="ignore"):
        values = np.array(rows).astype(np.float32)
    bits = floats.narrow(values, dtype)
    return _finite(np.concatenate([bits, _odd_bits(dtype, rng)]), dtype)


def everything(dtype, seed, rows=256):
    """All of the above."""
    rng = np.random.default_rng(seed)
    kinds = [kind(dtype, rows, rng) for kind in (ordinary, any_bits, same_sizes)]
    return np.concatenate([*kinds, edges(dtype, rng)])


def any_source(dtype, rows, rng):
    """Finite numbers of a dtype that is converted."""
    if dtype == "F64":
        scales = np.exp2(rng.integers(-12, 6, (rows, 1)))
        values = rng.standard_normal((rows, ROW)) * scales
        # Every other row lies between two F32.
        nearest = values.astype(np.float32)
        middles = (nearest.astype(np.float64) + np.nextafter(nearest, np.float32(1e9))) / 2
        return np.where(np.arange(rows)[:, None] % 2, values, middles).view(np.uint64)
    bits = rng.integers(0, 256, (rows, ROW), np.uint8)
    not_numbers = 0x7F if dtype == "F8_E4M3" else 0x7C
    return np.where(bits & not_numbers == not_numbers, bits ^ np.uint8(0x40), bits)


def any_parts(spec, dtype, rows, rng):
    """Words and scales as no encoder would make them, with all that is not finite."""
    kinds = [floats.STORED[dtype]] * 2 if spec.has_bias else [np.uint8]
    words = rng.integers(0, 1 << 32, (rows, ROW * spec.bits // 32), np.uint32)
    groups = ROW // spec.group_size
    small = [
        rng.integers(0, np.iinfo(kind).max, (rows, groups), kind, endpoint=True)
        for kind in kinds
    ]
    if spec.has_bias:
        # In every other row scales are of the size of biases: else sums are one or the other.
        scales, biases = np.split(same_sizes(dtype, rows, rng)[:, : 2 * groups], 2, axis=1)
        for part, near in zip(small, (scales, biases), strict=True):
            part[1::2] = near[1::2]
    return [words, *small]


def _finite(bits, dtype):
    # An infinity or NaN becomes a number of the exponent below.
    infinity = bits.dtype.type(_INFINITY[dtype])
    lowest = bits.dtype.type(1 << _FRACTION[dtype])
    return np.where((bits & infinity) == infinity, bits ^ lowest, bits)


def _scales(dtype):
    exponents = range(-150, 129, 5) if dtype != "F16" else range(-26, 17)
    return [2.0**exponent for exponent in (*exponents, -100, -101, 29, 30, 127)]


def _rows_at(scale, rng):
    """Rows whose largest magnitude is about `scale`."""
    one = np.ones(ROW)
    ramp = np.linspace(-1, 1, ROW)
    sign = np.where(np.arange(ROW) % 2, -1.0, 1.0)
    small = rng.standard_normal(ROW) / 1000
    steps = np.arange(ROW) / 2  # every other one lies between two codes
    yield from (one * scale, -one * scale, sign * scale, sign[::-1] * scale)
    yield from (ramp * scale, np.abs(ramp) * scale, -np.abs(ramp) * scale)
    for outlier in (1.0, -1.0):
        for rest in (0 * one, -0.0 * one, small, np.abs(small)):
            yield np.where(np.arange(ROW) % 16 == 5, outlier, rest) * scale
    for bits in (2, 3, 4, 5, 6, 8):
        last = 2**bits - 1
        for zero in (0, last // 2, last):
            row = np.clip(steps % (last + 1) - zero, -zero, last - zero)
            row[::16], row[1::16] = -zero, last - zero
            yield from (row * scale / last, -row * scale / last, row * 1.1 * scale / last)
    yield from _minifloat_rows(scale, sign)


def _minifloat_rows(scale, sign):
    """Codes of E2M1 and E4M3, the middles between them, and what is next to these."""
    fp4 = np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 6])
    fp8 = floats.E4M3_VALUES[:127].astype(np.float64)
    fp8 = np.concatenate([fp8, (fp8[1:] + fp8[:-1]) / 2])
    for nudge in (1, 1 - 2.0**-7, 1 + 2.0**-7, 1 - 2.0**-10, 1 + 2.0**-10, 1 + 2.0**-23):
        row = np.resize(fp4 * nudge, ROW)
        row[15::16] = 6
        yield row * sign * scale
        for part in (fp8[: ROW - 1], fp8[-ROW + 1 :], fp8[100 : 99 + ROW]):
            row = np.append(part * nudge, 448.0)
            row[::16] = 448
            yield row * sign * scale / 128
        # The largest magnitude decides about the scale: around each power of two.
        for largest in (6, 448, 7, 6 * 1.0625, 6 * 17, 6 * 19):
            row = np.resize([0.5, 1, 0.3, 0, -0.7], ROW)
            row[::16] = largest * nudge
            yield row * scale


def _odd_bits(dtype, rng):
    """Rows with the smallest and the largest numbers that there are."""
    kind = floats.STORED[dtype]
    sign, largest = _INFINITY[dtype] + (1 << _FRACTION[dtype]), _INFINITY[dtype] - 1
    normal = 1 << _FRACTION[dtype]
    pools = [
        (0, sign),
        (1, sign + 1),
        (0, 1, 2, 3, sign, sign + 1),
        range(0, 2 * normal, max(1, normal // 64)),
        (largest, sign + largest),
        (largest, 0),
        (sign + largest, 1),
        (largest - 1, largest, largest - normal),
        (normal - 1, normal, sign + normal),
    ]
    rows = [rng.choice(np.array(pool, np.int64), ROW) for pool in pools for _ in range(4)]
    return np.array(rows).astype(kind)
