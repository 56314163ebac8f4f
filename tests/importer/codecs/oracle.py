"""What MLX makes of weights, as bytes."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from tests.importer.codecs import corpus

VERSION = "0.32.4"
"""The version whose bits are promised."""

DTYPES = {"BF16": mx.bfloat16, "F16": mx.float16, "F32": mx.float32}


class Difference(NamedTuple):
    """Differing bits of each part, and of the decoded values."""

    parts: tuple[int, ...]
    values: int

    def __bool__(self) -> bool:
        return any(self.parts) or bool(self.values)


def mode(spec):
    """What MLX calls a type."""
    return {"group_size": spec.group_size, "bits": spec.bits, "mode": spec.mode.value}


def values_of(dtype, bits):
    """Return rows of a source as MLX converts them to what it can quantize."""
    match dtype:
        case "F64":
            return mx.array(bits.view(np.float64), mx.float64).astype(mx.float32, stream=mx.cpu)
        case "F8_E4M3":
            return mx.from_fp8(mx.array(bits), mx.bfloat16, stream=mx.cpu)
        case "F8_E5M2":
            halves = mx.array(bits.astype(np.uint16) << 8).view(mx.float16, stream=mx.cpu)
            return halves.astype(mx.bfloat16, stream=mx.cpu)
        case _:
            return mx.array(bits).view(DTYPES[dtype])


def quantize(spec, dtype, bits):
    """Quantize rows of a source on the CPU, and return each part."""
    values = values_of(dtype, bits)
    return [_bytes(part) for part in mx.quantize(values, **mode(spec), stream=mx.cpu)]


def arrays(spec, dtype, parts, rows):
    """Return parts as MLX takes them."""
    words, *small = (
        mx.array(np.frombuffer(part, kind).reshape(rows, -1))
        for part, kind in zip(parts, _kinds(spec, dtype), strict=True)
    )
    if spec.has_bias:
        small = [part.view(DTYPES[dtype]) for part in small]
    return words, *small


def dequantize(spec, dtype, parts, rows):
    """Dequantize parts of so many rows on the CPU."""
    values = mx.dequantize(
        *arrays(spec, dtype, parts, rows), **mode(spec), dtype=DTYPES[dtype], stream=mx.cpu
    )
    assert values.dtype == DTYPES[dtype]
    return _bytes(values)


def compare(spec, dtype, bits, runtime):
    """Compare what the codec makes of rows with what MLX makes of them, and of the parts."""
    codec = codec_for(spec, dtype)
    source = np.ascontiguousarray(bits)
    encoded = codec.encode(memoryview(source).cast("B"), runtime)
    assert encoded.nonfinite == 0
    theirs = quantize(spec, dtype, source)
    decoded = codec.decode(theirs, source.shape, range(source.size), runtime)
    expected = dequantize(spec, codec.value_dtype, theirs, len(source))
    return Difference(
        tuple(map(_differing, encoded.parts, theirs)),
        _values_differ(codec.value_dtype, decoded, expected),
    )


def compare_decoded(spec, dtype, parts, runtime):
    """Count the bits in which values of any parts differ."""
    rows = len(parts[0])
    parts = [bytearray(part.tobytes()) for part in parts]
    shape = rows, corpus.ROW
    whole = range(rows * corpus.ROW)
    decoded = codec_for(spec, dtype).decode(parts, shape, whole, runtime)
    return _values_differ(dtype, decoded, dequantize(spec, dtype, parts, rows))


def _values_differ(dtype, ours, theirs):
    ours, theirs = (np.frombuffer(values, floats.STORED[dtype]) for values in (ours, theirs))
    # Which NaN it is, is up to the processor.
    both = np.isnan(floats.widen(ours, dtype)) & np.isnan(floats.widen(theirs, dtype))
    return _differing(np.where(both, 0, ours), np.where(both, 0, theirs))


def _differing(ours, theirs):
    ours, theirs = (np.frombuffer(part, np.uint8) for part in (ours, theirs))
    assert ours.size == theirs.size
    if np.array_equal(ours, theirs):
        return 0
    return int(np.bitwise_count(ours ^ theirs).sum())


def _kinds(spec, dtype):
    small = [floats.STORED[dtype]] * 2 if spec.has_bias else [np.uint8]
    return [np.uint32, *small]


def _bytes(array):
    if array.dtype in (mx.bfloat16, mx.float16):
        array = array.view(mx.uint16)
    return np.array(array).tobytes()
