"""Weights that somebody else quantized: as near to their source as their type allows?"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from importer.chunks import Chunk
from importer.codecs.grouped import Grouped
from importer.quant import Mode, QuantSpec

if TYPE_CHECKING:
    from importer.codecs.measure import Measure

# Half of the largest step, in units of the largest magnitude of a group: between 4 and 6 of
# E2M1, between 416 and 448 of E4M3.
_FLOAT_STEPS: Final = {Mode.NVFP4: 1 / 6, Mode.MXFP4: 1 / 6, Mode.MXFP8: 1 / 28}


def bound(spec: QuantSpec) -> float:
    """The largest relative RMSE of a tensor that was rounded to the nearest code.

    An error is at most half a step. A group of integers has 2^bits - 1 steps from its least to
    its greatest, at most twice its largest magnitude apart, and that is at most the root of
    the group size times the root mean square of the group.
    """
    step = _FLOAT_STEPS.get(spec.mode, 1 / ((1 << spec.bits) - 1))
    return math.sqrt(spec.group_size) * step


class Foreign:
    """Decodes tensors of others and compares them with their source; for many threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._measures: dict[str, Measure] = {}
        self._worst: dict[str, tuple[float, str]] = {}
        self._counts: dict[str, int] = {}

    def look(self, chunk: Chunk, rows: memoryview, parts: Sequence[memoryview]) -> str | None:
        """Take a chunk; say what is wrong with the tensor when it was the last one."""
        from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

        tensor, codec = chunk.tensor, chunk.codec
        assert tensor is not None
        assert tensor.quant is not None
        assert isinstance(codec, Grouped)
        expected = [part.nbytes * chunk.nbytes // tensor.source_nbytes for part in tensor.parts]
        if [len(part) for part in parts] != expected:
            return f"has parts that are too short for {tensor.quant}"
        with self._mutex:
            measure = self._measures.setdefault(tensor.name, Measure(codec))
        measure.add(rows, parts)
        if not chunk.ends_tensor:
            return None
        with self._mutex:
            del self._measures[tensor.name]
        found, most, kind = measure.result(), bound(tensor.quant), str(tensor.quant)
        if not found.is_finite:
            return "has values that are not finite, in the source or here"
        if found.rmse > most:
            return (
                f"is no {kind} of the source: its relative error is {found.rmse:.3f}, that of "
                f"rounding is at most {most:.3f}"
            )
        with self._mutex:
            worst = self._worst.get(kind, (-1.0, ""))
            self._worst[kind] = max(worst, (found.rmse, tensor.name))
            self._counts[kind] = self._counts.get(kind, 0) + 1
        return None

    def notes(self) -> Iterator[str]:
        """What was found, for each type."""
        for kind, (error, name) in sorted(self._worst.items()):
            yield (
                f"{self._counts[kind]} tensors were quantized to {kind} by another program; "
                f"the largest relative error is {error:.4f}, of `{name}`"
            )
