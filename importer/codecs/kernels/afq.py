"""AFQ's encoder by compiled code, for finite values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, flag
from importer.codecs.kernels.scratch import block
from importer.codecs.reference import Bits
from importer.codecs.reference.afq import SMALLEST_RANGE
from importer.codecs.spec import QuantSpec

_BYTE: Final = 8
_SPAN: Final = 64
_RARE_BITS: Final = (2, 3, 5, 6)

_encode: Final = Function("afq", "encode")


def encode(
    source: Bits, dtype: str, spec: QuantSpec, words: Array, scale_parts: Sequence[Array]
) -> Array:
    """Fill `words` and `scale_parts`; return a flag for each group that is not finite."""
    scales, biases = scale_parts
    left = np.empty(len(source), np.uint8)
    scratch = block(spec.group_size)
    _encode(
        source,
        source.reshape(-1, min(spec.group_size, _SPAN)),
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        spec.bits,
        flag(spec.bits in _RARE_BITS),
        SMALLEST_RANGE,
        scratch.keys[source.itemsize],
        scratch.lines,
        scratch.codes,
        scratch.lanes,
        words.view(np.uint8) if spec.bits == _BYTE else None,
        words.reshape(-1),
        scales,
        biases,
        left,
    )
    return left
