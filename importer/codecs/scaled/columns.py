"""Weights whose inputs are scaled before they are multiplied: the scales belong to the columns.

AWQ and SmoothQuant divide the columns of a weight by a scale before they quantize it, and
multiply the activations by it. ModelOpt folds that into the layer before where there is one,
and stores it as `pre_quant_scale` elsewhere. The weight of the model is the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from importer.codecs.base import Decoder, KernelSpec, Operation, Runtime, Shape, Span
from store.fs import Buffer
from store.tensorfile import ITEM_BITS


@dataclass(frozen=True, slots=True)
class ColumnScaled:
    """Multiplies what another decoder reads, row by row, by a number for each column.

    Attributes:
        weight: reads F32 from all arrays but the last.
        scales: the dtype of the last array.
    """

    weight: Decoder
    scales: str

    def __post_init__(self) -> None:
        assert self.weight.value_dtype == "F32", f"{self.weight} is not decoded to F32"

    def __str__(self) -> str:
        return f"{self.weight} with scaled inputs"

    @property
    def value_dtype(self) -> str:
        """Return F32: products are rounded once."""
        return "F32"

    def unit(self, shape: Shape) -> int:
        """Return the unit of the weight, which is of whole rows."""
        return self.weight.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the weight needs, and the scales of all columns."""
        nbytes = _columns(shape) * ITEM_BITS[self.scales] // 8
        return (*self.weight.spans(shape, elements), Span(0, nbytes))

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the products."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.scaled.scaling import read_scales  # noqa: PLC0415

        *own, last = arrays
        values = np.frombuffer(self.weight.decode(own, shape, elements, runtime), "<f4")
        if not len(elements):
            return b""
        columns = _columns(shape)
        with np.errstate(all="ignore"):
            made = values.reshape(-1, columns) * read_scales(last, self.scales, columns)
        # Which NaN a product is depends on the processor.
        made[np.isnan(made)] = np.nan
        return made.reshape(-1).view(np.uint8).data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return those of the weight."""
        return self.weight.kernels(operation)


def _columns(shape: Shape) -> int:
    return shape[-1] if shape else 1
