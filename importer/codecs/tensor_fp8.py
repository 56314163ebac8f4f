"""FP8 with one scale for the whole tensor, as mistral.rs stores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from store.fs import Buffer

_SCALE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class TensorFp8:
    """Reads E4M3, each multiplied by a scale in F32."""

    value_dtype: str = field(default="F32", init=False)

    def __str__(self) -> str:
        return "fp8"

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1."""
        return 1

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the codes, and the scale."""
        return Span(elements.start, len(elements)), Span(0, _SCALE_BYTES)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002
        elements: range,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the values."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.minifloats import E4M3_VALUES  # noqa: PLC0415

        codes, scale = np.frombuffer(arrays[0], np.uint8), np.frombuffer(arrays[1], "<f4")
        with np.errstate(all="ignore"):
            table = E4M3_VALUES * scale
        table[np.isnan(table)] = np.nan
        values: Buffer = table[codes].view(np.uint8).data
        return values

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()
