"""NVFP4 with a scale of the whole tensor: ModelOpt's, compressed-tensors', and ours.

A value is code * (scale * global scale), in float32, as ModelOpt computes it (`dequantize` in
modelopt/torch/quantization/qtensor/nvfp4_tensor.py of 0.47.0), and MLX, whose `global_scale` is
2688 times this one. compressed-tensors stores a divisor: code * (scale / divisor), which it
then rounds to BF16 (compressed_tensors/compressors/nvfp4/base.py of 0.20.0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Part, Runtime, Shape, Span
from importer.codecs.scaled.blocks import Grid
from importer.codecs.scaled.kernel import ScaledKernel
from importer.codecs.spec import QUANT_TYPES, QuantSpec
from importer.codecs.transcode import CopyParts
from store.errors import InputError
from store.fs import Buffer
from store.tensorblob import GLOBAL_SCALE, PACKED_DTYPE, SCALE, WEIGHT

GROUPS: Final = (16, 32)
"""Codes that share a scale: of NVFP4, and of ModelOpt's with activations in FP8."""
_CODES_IN_A_WORD: Final = 8
_GLOBAL: Final = "F32"


@dataclass(frozen=True, slots=True)
class ScaledFp4:
    """Reads codes of E2M1 in groups with a scale in E4M3, and a scale of each matrix.

    Attributes:
        group_size: codes of a row that share a scale.
        divides: whether the scale of the matrix is a divisor.
        is_shared: whether a stack of matrices has one such scale.
    """

    group_size: int = 16
    divides: bool = False
    is_shared: bool = False

    def __str__(self) -> str:
        usual = self.group_size == QUANT_TYPES["nvfp4"].group_size
        return "nvfp4" if usual else f"nvfp4/{self.group_size}"

    @property
    def value_dtype(self) -> str:
        """Return F32, in which ModelOpt, MLX and compressed-tensors multiply."""
        return "F32"

    def unit(self, shape: Shape) -> int:
        """Return the elements of a row."""
        return max(self._grid(shape).columns, 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return codes and scales, and those of all matrices."""
        scales = self._grid(shape).scale_span(elements, "U8")
        return Span(elements.start // 2, len(elements) // 2), scales, Span(0, self._all(shape))

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
        rows = grid.rows_of(elements)
        kernel = runtime.kernel(self._kernel)
        scales = scaling.read_scales(arrays[1], "F8_E4M3", grid.across)
        whole = np.frombuffer(arrays[2], "<f4")
        if len(whole) > 1:
            whole = whole[np.arange(rows.start, rows.stop) // grid.rows][:, None]
        with np.errstate(all="ignore"):
            scales = scales / whole if self.divides else scales * whole
        words = np.frombuffer(arrays[0], "<u4").reshape(len(rows), -1)
        codes = scaling.unpack(words, 4, grid.columns, kernel)
        found = ScaledCodes(codes, "E2M1", scales, grid.width)
        return scaling.decode(found, scaling.places_of(grid, rows), self.value_dtype, kernel)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that unpacks and multiplies."""
        return (self._kernel,) if operation is Operation.DECODE else ()

    def _grid(self, shape: Shape) -> Grid:
        return Grid.of(shape, (1, self.group_size))

    def matrices(self, shape: Shape) -> int:
        """Return how many matrices a tensor is."""
        return self._grid(shape).matrices

    def _all(self, shape: Shape) -> int:
        """Return the bytes of the scales of all matrices."""
        return 4 if self.is_shared else 4 * self._grid(shape).matrices

    @property
    def _kernel(self) -> ScaledKernel:
        return ScaledKernel("E2M1", self.value_dtype, bits=4)


@dataclass(frozen=True, slots=True)
class GlobalNvfp4(ScaledFp4):
    """What a blob of ours can hold: groups of 16, with one scale for each matrix.

    Of what is stored with a divisor its reciprocal is kept (`CopyScaled`).
    """

    def __str__(self) -> str:
        return "nvfp4"

    @property
    def spec(self) -> QuantSpec:
        """The type whose codes and scales these are."""
        return QUANT_TYPES["nvfp4"]

    @property
    def keeping(self) -> CopyScaled:
        """What keeps its codes and scales."""
        return CopyScaled(self)

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return codes, scales, and the scales of the matrices: a number, or one for each."""
        *outer, columns = shape
        return (
            Part(WEIGHT, PACKED_DTYPE, (*outer, columns // _CODES_IN_A_WORD)),
            Part(SCALE, "U8", (*outer, columns // self.group_size)),
            Part(GLOBAL_SCALE, _GLOBAL, tuple(outer[:-1])),
        )


@dataclass(frozen=True, slots=True)
class CopyScaled(CopyParts):
    """Keeps codes and scales of NVFP4; of a divisor of the whole tensor its reciprocal.

    A divisor without an exact way back is not copied.
    """

    codec: GlobalNvfp4

    def convert(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,
        elements: range,
        runtime: Runtime,  # noqa: ARG002 - the contract
    ) -> Encoded:
        """Return codes and scales as they are, and the piece of the scales of matrices."""
        words, scales, whole = arrays
        count = max(math.prod(shape), 1)
        if self.codec.divides:
            from importer.codecs.scaled import scaling  # noqa: PLC0415 - it imports numpy

            if not scaling.has_way_back(whole):
                raise InputError(
                    "the divisor of an NVFP4 tensor is 0, or not what it was when the plan was "
                    "made",
                    code="E_QUANT_PAIR",
                )
            whole = scaling.reciprocals(whole)
        # Of so few bytes a chunk may have none (`importer.codecs.base`).
        begin, end = (len(whole) * at // count for at in (elements.start, elements.stop))
        return Encoded((words, scales, memoryview(whole)[begin:end]))
