"""Affine quantization by compiled code, for finite values and scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, flag
from importer.codecs.kernels.scratch import LONGEST_SPAN, block
from importer.codecs.reference import Bits, floats
from importer.codecs.reference.affine import SMALLEST_STEP
from importer.codecs.spec import QuantSpec

_BYTE: Final = 8
RARE_BITS: Final = (2, 3, 5, 6)

_encode: Final = Function("affine", "encode")
_decode: Final = Function("affine", "decode")


def encode(
    source: Bits, dtype: str, spec: QuantSpec, words: Array, scale_parts: Sequence[Array]
) -> Array:
    """Fill `words` and `scale_parts`; return a flag for each group that is not finite."""
    scales, biases = scale_parts
    left = np.empty(len(source), np.uint8)
    scratch = block(spec.group_size)
    _encode(
        source,
        source.reshape(-1, min(spec.group_size, LONGEST_SPAN)),
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        spec.bits,
        flag(spec.bits in RARE_BITS),
        SMALLEST_STEP,
        scratch.keys[source.itemsize],
        scratch.lines,
        scratch.codes,
        scratch.lanes,
        code_bytes(words, spec),
        words.reshape(-1),
        scales,
        biases,
        left,
    )
    return left


def decode(
    words: Array, scale_parts: Sequence[Array], dtype: str, spec: QuantSpec, values: Bits
) -> Array:
    """Fill `values`; return a flag for each group with a number that is not finite."""
    scales, biases = scale_parts
    left = np.empty(len(values), np.uint8)
    scratch = block(spec.group_size)
    _decode(
        words.reshape(-1),
        code_bytes(words, spec),
        scales,
        biases,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        spec.bits,
        flag(spec.bits in RARE_BITS),
        floats.LARGEST[dtype],
        scratch.lines,
        scratch.codes,
        scratch.lanes,
        values,
        left,
    )
    return left


def code_bytes(words: Array, spec: QuantSpec) -> Array | None:
    """Return the memory of words as codes where codes of eight bits are not packed."""
    return words.view(np.uint8) if spec.bits == _BYTE else None
