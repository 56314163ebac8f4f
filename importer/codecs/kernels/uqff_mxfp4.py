"""UQFF's encoder of MXFP4 by compiled code, for magnitudes in the domain of ranges.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, flag
from importer.codecs.kernels.logarithms import rounded_up
from importer.codecs.kernels.ranges import domain
from importer.codecs.kernels.scratch import block
from importer.codecs.reference import Bits
from importer.codecs.spec import QuantSpec

_encode: Final = Function("uqff_mxfp4", "encode")


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
        lowest,
        highest,
        rounded_up(),
        scratch.sizes[source.itemsize],
        scratch.lines,
        scratch.codes,
        scratch.lanes,
        words.reshape(-1),
        scales,
        left,
    )
    return left
