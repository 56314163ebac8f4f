"""NVFP4 in groups of rows: stacked experts of Llama 4 and GPT-OSS, as ModelOpt stores them.

transformers holds these experts as `[experts, in, out]`. ModelOpt 0.47.0 quantizes along the
inputs and stores codes and scales in that order, transposed (`_export_quantized_weight` in
modelopt/torch/export/unified_export_hf.py): a byte has the codes of two rows, and 16 rows have
a row of scales. Values are those of `importer.codecs.scaled.global_scaled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.scaled.blocks import Grid
from importer.codecs.scaled.kernel import ScaledKernel
from importer.codecs.spec import QUANT_TYPES
from store.fs import Buffer

HEIGHT: Final = QUANT_TYPES["nvfp4"].group_size
"""Rows that share a scale; a matrix has a multiple of them."""
_PAIR: Final = 2
_KERNEL: Final = ScaledKernel("E2M1", "F32", is_line=True)


@dataclass(frozen=True, slots=True)
class Fp4Down:
    """Reads codes of E2M1, two rows in a byte, their scales in E4M3, and those of matrices.

    Attributes:
        is_shared: whether a stack of matrices has one scale of a matrix.
    """

    is_shared: bool = False

    def __str__(self) -> str:
        return f"nvfp4 {HEIGHT}x1"

    @property
    def value_dtype(self) -> str:
        """Return F32, in which ModelOpt multiplies."""
        return "F32"

    def unit(self, shape: Shape) -> int:
        """Return the elements of two rows, which share bytes."""
        return max(_PAIR * self._grid(shape).columns, 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return codes and scales of the rows, and the scales of all matrices."""
        grid = self._grid(shape)
        codes = Span(elements.start // _PAIR, len(elements) // _PAIR)
        whole = 4 * (1 if self.is_shared else grid.matrices)
        return codes, grid.scale_span(elements, "U8"), Span(0, whole)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of pairs of rows."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.scaled import ScaledCodes  # noqa: PLC0415
        from importer.codecs.scaled import scaling  # noqa: PLC0415

        if not len(elements):
            return b""
        grid = self._grid(shape)
        rows = grid.rows_of(elements)
        pairs = np.frombuffer(arrays[0], np.uint8).reshape(-1, 1, grid.columns)
        codes = np.concatenate([pairs & 15, pairs >> 4], axis=1).reshape(-1, grid.columns)
        scales = scaling.read_scales(arrays[1], "F8_E4M3", grid.across)
        whole = np.frombuffer(arrays[2], "<f4")
        if len(whole) > 1:
            wanted = grid.scale_rows(rows)
            whole = whole[np.arange(wanted.start, wanted.stop) // grid.down][:, None]
        with np.errstate(all="ignore"):
            scales = scales * whole
        found = ScaledCodes(codes, "E2M1", scales, grid.width)
        kernel = runtime.kernel(_KERNEL)
        return scaling.decode(found, scaling.places_of(grid, rows), self.value_dtype, kernel)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that multiplies."""
        return (_KERNEL,) if operation is Operation.DECODE else ()

    def _grid(self, shape: Shape) -> Grid:
        return Grid.of(shape, (HEIGHT, 1))
