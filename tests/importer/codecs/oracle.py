"""What MLX makes of weights, as bytes."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from importer.codecs import codec_for, engine
from importer.codecs.arithmetic import floats

VERSION = "0.32.4"
"""The version whose bits are promised."""

_DTYPES = {"BF16": mx.bfloat16, "F16": mx.float16, "F32": mx.float32}


class Difference(NamedTuple):
    """Differing bits of each part, and of the decoded values."""

    parts: tuple[int, ...]
    values: int

    def __bool__(self) -> bool:
        return any(self.parts) or bool(self.values)


def quantize(spec, dtype, bits):
    """Quantize rows on the CPU; give each part."""
    rows = mx.array(bits).view(_DTYPES[dtype])
    mode = {"group_size": spec.group_size, "bits": spec.bits, "mode": spec.mode.value}
    with mx.stream(mx.cpu):
        return [_bytes(part) for part in mx.quantize(rows, **mode)]


def dequantize(spec, dtype, parts, shape):
    """Dequantize parts of rows of `shape` on the CPU."""
    rows, columns = shape
    words, *small = (
        mx.array(np.frombuffer(part, kind).reshape(rows, -1))
        for part, kind in zip(parts, _kinds(spec, dtype), strict=True)
    )
    if len(small) > 1:
        small = [part.view(_DTYPES[dtype]) for part in small]
    mode = {"group_size": spec.group_size, "bits": spec.bits, "mode": spec.mode.value}
    with mx.stream(mx.cpu):
        values = mx.dequantize(words, *small, **mode, dtype=_DTYPES[dtype])
    assert values.shape == (rows, columns)
    assert values.dtype == _DTYPES[dtype]
    return _bytes(values)


def compare(spec, dtype, bits, *, decode=True):
    """Compare what the codec makes of rows with what MLX makes of them."""
    codec = codec_for(spec, dtype)
    source = np.ascontiguousarray(bits)
    encoded = engine.encode(codec, memoryview(source).cast("B"), engine.ready(codec))
    assert encoded.nonfinite == 0
    theirs = quantize(spec, dtype, source)
    values = 0
    if decode:
        decoded = dequantize(spec, dtype, theirs, source.shape)
        values = _values_differ(dtype, codec.decode(theirs), decoded)
    return Difference(tuple(map(_differing, encoded.parts, theirs)), values)


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
