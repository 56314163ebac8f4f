"""Weights that somebody else quantized: as near to their source as their type allows?"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from importer.codecs.base import Runtime
from importer.codecs.metrics import Deviation
from importer.codecs.spec import Mode, QuantSpec
from importer.engine.paired import ChunkPair

if TYPE_CHECKING:
    from importer.codecs.measure import Measure

_SMALL_FLOATS: Final = {
    Mode.NVFP4: (17 / 96, 6 * 2.0**-10),
    Mode.MXFP4: (1 / 5, 6 * 2.0**-25),
    Mode.MXFP8: (1 / 17, 448 * 2.0**-25),
}
"""The largest error: in units of the largest magnitude of a group, and what is added to it."""

_ROUNDING: Final = {"BF16": 2.0**-8, "F16": 2.0**-11, "F32": 2.0**-24}
"""The largest relative error of rounding to a dtype."""
_HALF_SUBNORMAL: Final = {"BF16": 0.0, "F16": 2.0**-25, "F32": 0.0}
"""The largest absolute one, where it is not far below all others."""
_SMALLEST_STEP: Final = 1e-7
_NVFP4_LARGEST: Final = 6 * 448
_SLACK: Final = 1 + 2**-6
"""For products of small terms, and for what float32 rounds while codes are made."""


def bound(spec: QuantSpec, dtype: str, found: Deviation) -> float:
    """Return the largest relative RMSE of a tensor rounded to the nearest code, as in MLX.

    Let r be the root of the sum of a group's squares. No error in the group is larger than
    a * r + b; so the RMSE is at most root(group size) * a + b / RMS of the tensor.

    Integers: n = 2^bits - 1 steps cover the range R of a group, and R <= root(2) * r. A step
    is at least 1e-7. As zero is moved to a code, steps may cover less than R, by up to n / (n
    + 1) of one: no error is larger than a step. Then the scale is rounded to the dtype, its
    product with a code, which is at most R and a step, and the sum with the bias, which is at
    most r and a step.

    Small floats: of the largest magnitude m, which is at most r, the error is largest where m
    / scale is small and a value lies in the middle of the last two codes below it. In mxfp4
    that is 5, between 4 and 6: m / 5; in mxfp8 it is 272, between 256 and 288: m / 17. The
    scale of nvfp4 is m / 6 (1 +- 1/16) +- 2^-10, so that m / scale may be 96 / 17, with 5
    below it. Where the scale rounds down, m is clipped by m / 16 + 6 * 2^-10, and m up to
    that is lost. Above 2688 all may be lost, which adds 1. Quotient, scale and product are
    rounded to the dtype.

    Where MLX's own exponents wrap around (docs/formats/quantization.md) nothing is bounded.

    Args:
        dtype: of the values.
        found: of the whole tensor.
    """
    unit, tiny = _ROUNDING[dtype], _HALF_SUBNORMAL[dtype]
    if spec.has_bias:
        last = (1 << spec.bits) - 1
        span = math.sqrt(2)
        step = span / last
        relative = step + unit * (2 * (span + step) + 1 + step)
        absolute = _SMALLEST_STEP * 2 + (last + 2) * tiny
        beyond = 0.0
    else:
        most, absolute = _SMALL_FLOATS[spec.mode]
        relative = most + 3 * unit
        # No value can be larger than the root of the sum of all squares.
        beyond = float(spec.mode is Mode.NVFP4 and found.sum_x2 > _NVFP4_LARGEST**2)
        absolute += tiny
    if not found.sum_x2:
        return beyond
    size = math.sqrt(found.sum_x2 / max(found.elements, 1))
    return _SLACK * (math.sqrt(spec.group_size) * relative + beyond + absolute / size)


class ErrorBoundCheck:
    """Decodes tensors of others and compares them with their source; for many threads."""

    def __init__(self, runtime: Runtime) -> None:
        """Decode with the kernels that `runtime` has."""
        self._runtime = runtime
        self._mutex = threading.Lock()
        self._measures: dict[str, Measure] = {}
        self._worst: dict[str, tuple[float, str]] = {}
        self._counts: dict[str, int] = {}

    def look(self, pair: ChunkPair) -> str | None:
        """Take a chunk; say what is wrong with the tensor when it was the last one."""
        from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

        chunk, tensor = pair.chunk, pair.chunk.tensor
        assert tensor is not None
        assert tensor.quant is not None
        assert tensor.codec is not None
        source, codec = tensor.sources[0].decoder, tensor.codec
        if not pair.is_complete:
            return f"lacks bytes that {tensor.quant} has, or has them in another dtype"
        with self._mutex:
            fresh = Measure(source, codec, self._runtime)
            measure = self._measures.setdefault(tensor.name, fresh)
        measure.add(pair.arrays, pair.parts, chunk.shape, chunk.elements)
        if not chunk.ends_tensor:
            return None
        with self._mutex:
            del self._measures[tensor.name]
        found, kind = measure.result(), str(tensor.quant)
        if not found.is_finite:
            return "has values that are not finite, in the source or here"
        most = bound(tensor.quant, codec.value_dtype, found)
        if found.rmse > most:
            return (
                f"is not the source in {kind}: its relative error is {found.rmse:.3f}, that of "
                f"rounding is at most {most:.3f}"
            )
        with self._mutex:
            worst = self._worst.get(kind, (-1.0, ""))
            self._worst[kind] = max(worst, (found.rmse, tensor.name))
            self._counts[kind] = self._counts.get(kind, 0) + 1
        return None

    def notes(self) -> Iterator[str]:
        """Yield what was found, a sentence for each type."""
        for kind, (error, name) in sorted(self._worst.items()):
            yield (
                f"{self._counts[kind]} tensors were quantized to {kind} by another program; "
                f"the largest relative error is {error:.4f}, of `{name}`"
            )
