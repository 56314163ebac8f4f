"""FP8 with scales: of a whole tensor, of each channel, or of blocks such as 128x128.

One decoder for all who write such weights: DeepSeek and transformers (`fp8`, `fbgemm_fp8`),
compressed-tensors (`float-quantized`), ModelOpt, and those of diffusion models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.scaled.blocks import Block, Grid
from importer.codecs.scaled.kernel import ScaledKernel
from store.fs import Buffer

SCALES: Final = ("F32", "BF16", "F16", "F8_E8M0")


@dataclass(frozen=True, slots=True)
class BlockFp8:
    """Reads codes of 8 bits, each of which is multiplied by the scale of its block.

    Attributes:
        codes: the dtype of the codes.
        scales: the dtype of the scales.
        block: rows and columns that share one.
        is_shared: whether one scale is that of all matrices of a stack.
    """

    codes: str
    scales: str
    block: Block = (0, 0)
    is_shared: bool = False

    def __str__(self) -> str:
        return f"fp8 {in_words(self.block)}".rstrip()

    @property
    def value_dtype(self) -> str:
        """Return F32, in which transformers multiplies.

        Under scales of fewer digits products are exact; rounded once, they are what
        transformers and compressed-tensors decode to, whose values have the scales' dtype.
        """
        return "F32"

    def unit(self, shape: Shape) -> int:
        """Return the elements of a row."""
        return max(self._grid(shape).columns, 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the codes, and the scales of their rows."""
        scales = self._grid(shape).scale_span(elements, self.scales)
        return Span(elements.start, len(elements)), scales

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole rows."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.scaled import ScaledCodes  # noqa: PLC0415
        from importer.codecs.scaled import scaling  # noqa: PLC0415

        if not len(elements):
            return b""
        grid = self._grid(shape)
        found = ScaledCodes(
            np.frombuffer(arrays[0], np.uint8).reshape(-1, grid.columns),
            self.codes,
            scaling.read_scales(arrays[1], self.scales, grid.across),
            grid.width,
        )
        places = scaling.places_of(grid, grid.rows_of(elements))
        kernel = runtime.kernel(self._kernel)
        return scaling.decode(found, places, self.value_dtype, kernel)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that multiplies."""
        return (self._kernel,) if operation is Operation.DECODE else ()

    def _grid(self, shape: Shape) -> Grid:
        return Grid.of(shape, self.block, is_shared=self.is_shared)

    @property
    def _kernel(self) -> ScaledKernel:
        return ScaledKernel(self.codes, self.value_dtype, is_line=self.block[1] == 1)


def in_words(block: Block) -> str:
    """Return how people are told of a block: `128x128`, `channel`, or nothing for all.

    Example:
        >>> in_words((1, 0)), in_words((0, 0))
        ('channel', '')
    """
    if block == (0, 0):
        return ""
    if block in {(1, 0), (0, 1)}:
        return "channel"
    return "x".join(str(side) if side else "*" for side in block)
