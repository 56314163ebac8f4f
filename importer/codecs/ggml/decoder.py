"""GGML's blocks: codes of some consecutive elements of a row, with their scales.

Nothing here imports numpy, so that a plan is made without it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.ggml.types import NAMED, GgmlType
from importer.codecs.spec import QUANT_TYPES, QuantSpec, with_group_size
from store.fs import Buffer

_REPACKED_AS: Final[Mapping[str, QuantSpec]] = MappingProxyType(
    {
        name: with_group_size(QUANT_TYPES[type_name], group_size)
        for name, type_name, group_size in (
            ("Q1_0", "int2", 128),
            ("Q2_0", "int2", 64),
            ("TQ1_0", "int2", 128),
            ("TQ2_0", "int2", 128),
            ("Q4_0", "int4", 32),
            ("Q4_1", "int4", 32),
            ("Q4_K", "int4", 32),
            ("Q5_0", "int5", 32),
            ("Q5_1", "int5", 32),
            ("Q5_K", "int5", 32),
            ("Q8_0", "int8", 32),
            ("Q8_1", "int8", 32),
            ("MXFP4", "mxfp4", 32),
            ("NVFP4", "nvfp4", 16),
        )
    }
)
"""The type of the store that holds the codes and the values of a type of GGML."""


@dataclass(frozen=True, slots=True)
class Ggml:
    """Reads one U8 array of shape `[..., rows, bytes of a row]` (docs/formats/ggml.md).

    Values are what libggml computes, which it does in float32.

    Attributes:
        kind: name of a type of `GGML_TYPES` that is not plain, such as `Q4_K`.
    """

    kind: str

    def __post_init__(self) -> None:
        assert not self.type.is_plain, f"{self.kind} has no blocks"

    def __str__(self) -> str:
        return self.kind

    @property
    def type(self) -> GgmlType:
        """The facts of the type."""
        return NAMED[self.kind]

    @property
    def value_dtype(self) -> str:
        """Return F32."""
        return "F32"

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - a block is within a row
        """Return the elements of a block."""
        return self.type.elements

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the blocks."""
        size = self.type
        begin = elements.start // size.elements * size.nbytes
        return (Span(begin, len(elements) // size.elements * size.nbytes),)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,  # noqa: ARG002
        runtime: Runtime,
    ) -> Buffer:
        """Return the values of whole blocks."""
        from importer.codecs.ggml import arithmetic as ggml_arithmetic  # noqa: PLC0415 - it imports numpy

        (blocks,) = arrays
        return ggml_arithmetic.decode(self.type, blocks, runtime.kernel(_kernel(self.kind)))

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that decodes."""
        return (_kernel(self.kind),) if operation is Operation.DECODE else ()

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the shape of the array."""
        *outer, columns = shape
        return (*outer, self.type.row_nbytes(columns))

    def kept(self, blocks: Buffer) -> Buffer:
        """Return the blocks as they are."""
        return blocks

    def holds(self, shape: Shape) -> QuantSpec | None:  # noqa: ARG002 - blocks are whole groups
        """Return the type of the store that holds the codes, with F32 for scales, or None.

        Q2_K, Q3_K and Q6_K have groups of 16, codes of IQ1 to IQ4 are places in tables, and
        the scale of Q8_K has so many digits that products are rounded.
        """
        return _REPACKED_AS.get(self.kind)

    def repack(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,
        elements: range,  # noqa: ARG002 - the contract
        runtime: Runtime,  # noqa: ARG002
    ) -> Encoded:
        """Return whole blocks as the parts of the type that holds them, for values of F32.

        Decoded, they are the same numbers; a zero may have another sign where a block has no
        minimum. Values of blocks whose scale is not finite are counted, and are not the same.
        """
        from importer.codecs.ggml import arithmetic as ggml_arithmetic  # noqa: PLC0415 - it imports numpy

        spec = self.holds(shape)
        assert spec is not None, f"no type of the store holds the codes of {self.kind}"
        (blocks,) = arrays
        return ggml_arithmetic.repack(self.type, blocks, spec)


@dataclass(frozen=True, slots=True)
class GgmlKernel:
    """A kernel that decodes blocks of a type."""

    kind: str

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of all types; code is found at the first call."""
        return importlib.import_module("importer.codecs.kernels.ggml")

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some blocks.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs.ggml import arithmetic as ggml_arithmetic  # noqa: PLC0415 - it imports numpy

        ggml_arithmetic.check(NAMED[self.kind], kernel)


@functools.cache
def _kernel(kind: str) -> GgmlKernel:
    # For every chunk: making one takes a microsecond, and more while caches are cold.
    return GgmlKernel(kind)
