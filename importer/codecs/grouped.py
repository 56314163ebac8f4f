"""What all quantizations of the store share: groups along the last axis, each with a scale.

Nothing here imports numpy: a plan needs shapes, and an import that quantizes nothing needs
no arithmetic.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from importer.codecs.base import Encoded, KernelSpec, Operation, Part, Runtime, Shape, Span
from importer.codecs.spec import (
    GROUP_SIZES,
    MLX,
    QUANT_TYPES,
    VALUE_DTYPES,
    Calibration,
    ColumnWeights,
    Mode,
    QuantSpec,
)
from store.errors import UnsupportedError
from store.fs import Buffer
from store.tensorblob import BIAS, PACKED_DTYPE, SCALE, WEIGHT
from store.tensorfile import ITEM_BITS

if TYPE_CHECKING:
    from importer.codecs.reference import Arithmetic

VALUES: Final = "values"
"""Stands for the dtype of the values."""


class Family(NamedTuple):
    """What distinguishes one family of types from another.

    Attributes:
        scale_parts: suffix and dtype of the parts that have one element for each group, in the
            order of the file.
        reference: module of `importer.codecs.reference` with the arithmetic.
        kernel: module of `importer.codecs.kernels` with the compiled arithmetic.
        effort: how many times as long as without a search numpy takes for a weight.
    """

    scale_parts: tuple[tuple[str, str], ...]
    reference: str
    kernel: str
    effort: int = 1


_FLOAT_SCALE: Final = (SCALE, "U8")
FAMILIES: Final[Mapping[Mode, Family]] = MappingProxyType(
    {
        # A value is its code times the scale, plus the bias.
        Mode.AFFINE: Family(
            ((SCALE, VALUES), (BIAS, VALUES)),
            "affine",
            "affine",
        ),
        # Codes are E2M1, scales E4M3; there is no scale of the whole tensor.
        Mode.NVFP4: Family((_FLOAT_SCALE,), "nvfp4", "fp4"),
        # Codes are E2M1 or E4M3, scales are powers of two in E8M0 (OCP MX v1.0).
        Mode.MXFP4: Family((_FLOAT_SCALE,), "mxfp", "fp4"),
        Mode.MXFP8: Family((_FLOAT_SCALE,), "mxfp", "mxfp8"),
    }
)

FITTED: Final[Mapping[Mode, Family]] = MappingProxyType(
    {
        mode: FAMILIES[mode]._replace(reference=module, kernel=module, effort=effort)
        # 460 ns beside 11 for a weight of 4 bits, 170 beside 21, 87 beside 27.
        for mode, module, effort in (
            (Mode.AFFINE, "affine_fitted", 32),
            (Mode.NVFP4, "fp4_fitted", 8),
            (Mode.MXFP4, "fp4_fitted", 3),
        )
    }
)
"""The same parts, where scales are searched for."""

_WORD: Final = 32
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Grouped:
    """A quantization type of the store, for values that come as one dtype.

    Attributes:
        dtype: of the values that `encode` takes; one of `VALUE_DTYPES`.
        importance: by which errors are weighed where scales are searched for; None where all
            columns count alike.
    """

    spec: QuantSpec
    dtype: str
    importance: ColumnWeights | None = None

    def __str__(self) -> str:
        return str(self.spec)

    @property
    def family(self) -> Family:
        """The family that the type belongs to."""
        return _family(self.spec)

    @property
    def value_dtype(self) -> str:
        """The dtype of the values that are quantized, and of those that `decode` returns."""
        return VALUE_DTYPES[self.dtype]

    @property
    def is_lossless(self) -> bool:
        """Return False: values are rounded to codes."""
        return False

    @property
    def scale_parts(self) -> tuple[tuple[str, str], ...]:
        """Suffix and dtype of the small parts, which have one element for each group."""
        return _scale_parts(self.family, self.value_dtype)

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of the family, in numpy."""
        name = f"importer.codecs.reference.{self.family.reference}"
        return cast("Arithmetic", importlib.import_module(name))

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the packed codes, then the small parts."""
        *outer, columns = shape
        bits, group_size = self.spec.bits, self.spec.group_size
        assert columns % group_size == 0, f"{columns} columns in groups of {group_size}"
        words = Part(WEIGHT, PACKED_DTYPE, (*outer, columns * bits // _WORD))
        small = (*outer, columns // group_size)
        return (words, *(Part(suffix, dtype, small) for suffix, dtype in self.scale_parts))

    def unit(self, shape: Shape) -> int:
        """Return the group size, or a row where columns differ in importance."""
        return self.spec.group_size if self.importance is None else max(shape[-1], 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the words of the groups, then their scales and biases."""
        bits = self.spec.bits
        groups = range(
            elements.start // self.spec.group_size, elements.stop // self.spec.group_size
        )
        words = Span(elements.start * bits // _BYTE, len(elements) * bits // _BYTE)
        widths = (ITEM_BITS[dtype] // _BYTE for _, dtype in self.scale_parts)
        return (words, *(Span(groups.start * width, len(groups) * width) for width in widths))

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:
        """Quantize whole groups, or whole rows where columns differ in importance."""
        from importer.codecs import arithmetic  # noqa: PLC0415 - it imports numpy

        kernel = runtime.kernel(self._kernel(Operation.ENCODE))
        return arithmetic.encode(self, values, kernel, self.importance)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,  # noqa: ARG002
        runtime: Runtime,
    ) -> Buffer:
        """Return the values of whole groups."""
        from importer.codecs import arithmetic  # noqa: PLC0415 - it imports numpy

        return arithmetic.decode(self, arrays, runtime.kernel(self._kernel(Operation.DECODE)))

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the family's kernel for an operation."""
        return (self._kernel(operation),)

    def _kernel(self, operation: Operation) -> GroupKernel:
        # Readers need not know how scales were found.
        encodes = operation is Operation.ENCODE
        calibration = self.spec.calibration if encodes else MLX
        is_weighted = encodes and self.importance is not None
        return _kernel(operation, self.spec.name, self.value_dtype, calibration, is_weighted)


@dataclass(frozen=True, slots=True)
class GroupKernel:
    """A kernel that encodes or decodes groups, of any size that the type can have.

    Attributes:
        type_name: of the type in `QUANT_TYPES`.
        dtype: of the values that are quantized.
        calibration: how scales are found.
        is_weighted: whether columns differ in importance.
    """

    operation: Operation
    type_name: str
    dtype: str
    calibration: Calibration = MLX
    is_weighted: bool = False

    @property
    def spec(self) -> QuantSpec:
        """The type, in groups of its usual size."""
        return QUANT_TYPES[self.type_name]._replace(calibration=self.calibration)

    @property
    def effort(self) -> int:
        """How many times as long as usual numpy takes: it searches for scales slowly."""
        return _family(self.spec).effort if self.operation is Operation.ENCODE else 1

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        name = _family(self.spec).kernel
        return importlib.import_module(f"importer.codecs.kernels.{name}")

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some groups.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs import arithmetic  # noqa: PLC0415 - it imports numpy

        own = codec(self.spec, self.dtype)
        arithmetic.check(self.operation, own, kernel, is_weighted=self.is_weighted)


def _family(spec: QuantSpec) -> Family:
    return (FAMILIES if spec.calibration == MLX else FITTED)[spec.mode]


@functools.cache
def _scale_parts(family: Family, value_dtype: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (suffix, value_dtype if dtype == VALUES else dtype)
        for suffix, dtype in family.scale_parts
    )


@functools.cache
def _kernel(
    operation: Operation,
    type_name: str,
    dtype: str,
    calibration: Calibration,
    is_weighted: bool,  # noqa: FBT001
) -> GroupKernel:
    # For every chunk: making one takes a microsecond, and more while caches are cold.
    return GroupKernel(operation, type_name, dtype, calibration, is_weighted)


def codec(spec: QuantSpec, dtype: str) -> Grouped:
    """Return the codec of a type for values of `dtype`.

    Raises:
        UnsupportedError: values of `dtype` cannot be quantized, or not in such groups.
    """
    if dtype not in VALUE_DTYPES:
        raise UnsupportedError(
            f"quantizing {dtype} to {spec.name}: expected {', '.join(VALUE_DTYPES)}",
            code="E_QUANT_DTYPE",
        )
    sizes = GROUP_SIZES[spec.mode]
    if spec.group_size not in sizes:
        known = ", ".join(map(str, sizes))
        raise UnsupportedError(
            f"{spec.name} in groups of {spec.group_size}: expected {known}",
            code="E_QUANT_GROUP",
        )
    return Grouped(spec, dtype)
