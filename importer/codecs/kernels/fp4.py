"""MXFP4 and NVFP4 by compiled code, for magnitudes in the domain of ranges.py."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, Memory, flag
from importer.codecs.kernels.ranges import domain, last_e8m0
from importer.codecs.kernels.scratch import block
from importer.codecs.reference import Bits, floats
from importer.codecs.spec import Mode, QuantSpec

_LAST_E4M3: Final = 0x7E

_encode: Final = Function("fp4", "encode")
_decode: Final = Function("fp4", "decode")


def encode(
    source: Bits, dtype: str, spec: QuantSpec, words: Array, scale_parts: Sequence[Array]
) -> Array:
    """Fill `words` and `scale_parts`; return a flag for each group outside the domain."""
    (scales,) = scale_parts
    left = np.empty(len(source), np.uint8)
    lowest, highest = domain(dtype)
    scratch = block(spec.group_size)
    _encode(
        source,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        flag(spec.mode is Mode.NVFP4),
        lowest,
        highest,
        middles_of(dtype),
        scratch.sizes[source.itemsize],
        scratch.lines,
        scratch.codes,
        scratch.lanes,
        words.reshape(-1),
        scales,
        left,
    )
    return left


@functools.cache
def middles_of(dtype: str) -> Memory:
    """Return the bits of the largest float32 quotients with codes 0, 1 and 2.

    That is halfway between two codes, or what `dtype` rounds to halfway: half a digit more, as
    all middles are even numbers of a 16-bit dtype.
    """
    middles = np.array([0.25, 0.75, 1.25], np.float32)
    if dtype != "F32":
        following = floats.widen(floats.narrow(middles, dtype) + np.uint16(1), dtype)
        middles = (middles + following) / np.float32(2)
    return Memory(middles.view(np.int32))


def decode(
    words: Array, scale_parts: Sequence[Array], dtype: str, spec: QuantSpec, values: Bits
) -> Array:
    """Fill `values`; return a flag for each group whose scale is negative or not finite."""
    (scales,) = scale_parts
    left = np.empty(len(values), np.uint8)
    is_nvfp4 = spec.mode is Mode.NVFP4
    scratch = block(spec.group_size)
    _decode(
        words.reshape(-1),
        scales,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        flag(is_nvfp4),
        _LAST_E4M3 if is_nvfp4 else last_e8m0(dtype),
        scratch.lines,
        scratch.codes,
        scratch.lanes,
        values,
        left,
    )
    return left
