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
        has_order: whether an array tells the group of each column (act-order).
    """

    codes: str
    scales: str
    block: Block = (0, 0)
    is_shared: bool = False
    has_order: bool = False

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
        """Return the codes, and the scales of their rows; of what tells groups everything."""
        grid = self._grid(shape)
        found = (Span(elements.start, len(elements)), grid.scale_span(elements, self.scales))
        return (*found, Span(0, 4 * grid.columns)) if self.has_order else found

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole rows.

        Raises:
            InputError: what tells the groups of columns does not.
        """
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.scaled import ScaledCodes  # noqa: PLC0415
        from importer.codecs.scaled import scaling  # noqa: PLC0415

        if not len(elements):
            return b""
        grid = self._grid(shape)
        codes = np.frombuffer(arrays[0], np.uint8).reshape(-1, grid.columns)
        scales, width = scaling.read_scales(arrays[1], self.scales, grid.across), grid.width
        groups = scaling.groups_of(arrays[2], grid) if self.has_order else None
        if groups is not None:
            width, scales = 1, scales[:, groups]
        found = ScaledCodes(codes, self.codes, scales, width)
        places = scaling.places_of(grid, grid.rows_of(elements))
        kernel = runtime.kernel(self._kernel(is_line=width == 1))
        return scaling.decode(found, places, self.value_dtype, kernel)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernels that multiply."""
        if operation is not Operation.DECODE:
            return ()
        lines = (False, True) if self.has_order else (self.block[1] == 1,)
        return tuple(self._kernel(is_line=is_line) for is_line in lines)

    def _grid(self, shape: Shape) -> Grid:
        return Grid.of(shape, self.block, is_shared=self.is_shared)

    def _kernel(self, *, is_line: bool) -> ScaledKernel:
        return ScaledKernel(self.codes, self.value_dtype, is_line=is_line)


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
