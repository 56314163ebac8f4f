"""MXFP4 and NVFP4 with fitted scales by compiled code, for magnitudes in the domain."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np

from importer.codecs.kernels.fp4 import decode, middles_of
from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, Memory, flag
from importer.codecs.kernels.ranges import searched
from importer.codecs.kernels.scratch import turned
from importer.codecs.reference import Bits
from importer.codecs.reference.fp4_fitted import last_byte, shifts
from importer.codecs.spec import Mode, QuantSpec

__all__ = ["decode", "encode"]

_encode: Final = Function("fp4_fitted", "encode")


@functools.cache
def _shifts(spec: QuantSpec) -> Memory:
    return Memory(np.array(shifts(spec), np.float32))


def encode(  # noqa: PLR0913, PLR0917 - the contract
    source: Bits,
    dtype: str,
    spec: QuantSpec,
    words: Array,
    scale_parts: Sequence[Array],
    importance: Array | None = None,
) -> Array:
    """Fill `words` and `scale_parts`; return a flag for each group outside the domain."""
    (scales,) = scale_parts
    left = np.empty(len(source), np.uint8)
    lowest, highest = searched(dtype)
    scratch = turned(spec.group_size)
    _encode(
        source,
        importance,
        flag(dtype == "F16"),
        flag(dtype == "F32"),
        flag(spec.mode is Mode.NVFP4),
        lowest,
        highest,
        middles_of("F32"),
        _shifts(spec),
        np.float32(last_byte(spec)),
        scratch.sizes[source.itemsize],
        scratch.values,
        scratch.weights if importance is not None else None,
        scratch.state,
        scratch.codes,
        scratch.lanes,
        words.reshape(-1),
        scales,
        left,
    )
    return left
