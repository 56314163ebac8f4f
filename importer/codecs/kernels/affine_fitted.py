"""Affine quantization with fitted scales by compiled code, for ordinary values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.affine import RARE_BITS, code_bytes, decode
from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, Memory, flag
from importer.codecs.kernels.scratch import LONGEST_SPAN, turned
from importer.codecs.reference import Bits, floats
from importer.codecs.reference.affine import SMALLEST_STEP
from importer.codecs.reference.affine_fitted import (
    LARGEST,
    SWEEPS,
    candidates,
    percentile,
    zero_code,
)
from importer.codecs.spec import Method, QuantSpec

__all__ = ["decode", "encode"]

_encode: Final = Function("affine_fitted", "encode")


@functools.cache
def _candidates(spec: QuantSpec) -> tuple[Memory, int]:
    found = candidates(spec)
    return Memory(found), SWEEPS if len(found) else 0


def encode(  # noqa: PLR0913, PLR0917 - the contract
    source: Bits,
    dtype: str,
    spec: QuantSpec,
    words: Array,
    scale_parts: Sequence[Array],
    importance: Array | None = None,
) -> Array:
    """Fill `words` and `scale_parts`; return a flag for each group that numpy has to do."""
    scales, biases = scale_parts
    left = np.empty(len(source), np.uint8)
    scratch = turned(spec.group_size)
    tried, sweeps = _candidates(spec)
    _encode(
        source,
        importance,
        source.reshape(-1, min(spec.group_size, LONGEST_SPAN)),
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        spec.bits,
        flag(spec.bits in RARE_BITS),
        SMALLEST_STEP,
        LARGEST,
        floats.LARGEST[dtype],
        zero_code(spec),
        flag(spec.calibration.symmetric),
        flag(spec.calibration.method is Method.PERCENTILE),
        *percentile(spec.group_size),
        tried,
        sweeps,
        scratch.keys[source.itemsize],
        scratch.values,
        scratch.weights if importance is not None else None,
        scratch.state,
        scratch.codes,
        scratch.lanes,
        code_bytes(words, spec),
        words.reshape(-1),
        scales,
        biases,
        left,
    )
    return left
