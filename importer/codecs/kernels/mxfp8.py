"""MXFP8 by compiled code, for magnitudes in the domain of ranges.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, flag
from importer.codecs.kernels.ranges import domain, last_e8m0
from importer.codecs.kernels.scratch import block
from importer.codecs.reference import Bits
from importer.codecs.spec import QuantSpec

_encode: Final = Function("mxfp8", "encode")
_decode: Final = Function("mxfp8", "decode")


def encode(
    source: Bits, dtype: str, spec: QuantSpec, words: Array, scale_parts: Sequence[Array]
) -> Array:
    """Fill `words` and `scale_parts`; return a flag for each group outside the domain."""
    (scales,) = scale_parts
    left = np.empty(len(source), np.uint8)
    lowest, highest = domain(dtype)
    _encode(
        source,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        lowest,
        highest,
        block(spec.group_size).sizes[source.itemsize],
        words.view(np.uint8),
        scales,
        left,
    )
    return left


def decode(
    words: Array, scale_parts: Sequence[Array], dtype: str, spec: QuantSpec, values: Bits
) -> Array:
    """Fill `values`; return a flag for each group with a scale or code that is not finite."""
    del spec
    (scales,) = scale_parts
    left = np.empty(len(values), np.uint8)
    _decode(
        words.view(np.uint8),
        scales,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        last_e8m0(dtype),
        values,
        left,
    )
    return left
