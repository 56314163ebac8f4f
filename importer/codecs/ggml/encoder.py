"""Values to GGML's blocks, as libggml quantizes them, with an importance matrix or without.

Nothing here imports numpy, so that a plan is made without it.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass, field
from typing import Any, Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Part, Runtime, Shape
from importer.codecs.ggml.types import NAMED, GgmlType
from importer.codecs.spec import VALUE_DTYPES
from store.errors import UnsupportedError
from store.fs import Buffer
from store.tensorblob import WEIGHT

_SMALL: Final = ("Q4_0", "Q4_1", "Q5_0", "Q5_1")
_WEIGHTED: Final = (*_SMALL, "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
_DIRECT: Final = ("Q8_0", *_SMALL, "TQ1_0", "TQ2_0", "MXFP4")
"""The types whose scales follow from the largest values, if all columns count alike."""
_SEARCHING: Final = 32
QUANTIZED: Final = ("Q8_0", *_WEIGHTED, "TQ1_0", "TQ2_0", "MXFP4")
"""The types that values can become."""

_FLOAT32: Final = 4


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Makes one U8 array of shape `[..., rows, bytes of a row]` (docs/formats/ggml.md).

    Blocks are what libggml's `ggml_quantize_chunk` makes of the same values, to the byte.
    Counted as not finite are NaNs and infinities, and every value of a block whose scale is
    too large for F16; libggml's tools refuse both.

    Attributes:
        kind: name of the type, one of `QUANTIZED`.
        dtype: of the values that `encode` takes; one of `VALUE_DTYPES`.
        importance: how much errors count, a little-endian float32 for each column; None where
            that is not known. The same for all rows: of stacked experts each has its own
            quantizer (`importer.codecs.stacked`).
    """

    kind: str
    dtype: str
    importance: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        assert self.kind in QUANTIZED, f"{self.kind} is not a type that values can become"

    def __str__(self) -> str:
        return self.kind

    @property
    def type(self) -> GgmlType:
        """The facts of the type."""
        return NAMED[self.kind]

    @property
    def is_lossless(self) -> bool:
        """Return False: values are rounded to codes."""
        return False

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, an array of bytes."""
        *outer, columns = shape
        assert self.importance is None or len(self.importance) == columns * _FLOAT32, (
            f"importance of {len(self.importance or b'')} bytes for {columns} columns"
        )
        return (Part(WEIGHT, "U8", (*outer, self.type.row_nbytes(columns))),)

    def unit(self, shape: Shape) -> int:
        """Return the elements of a block, or of a row where columns differ in importance."""
        return self.type.elements if self.importance is None else max(shape[-1], 1)

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:
        """Quantize whole blocks, or whole rows where columns differ in importance."""
        from importer.codecs.ggml import quantizing  # noqa: PLC0415 - it imports numpy

        return quantizing.encode(
            self.type, self.dtype, values, self.importance, runtime.kernel(self._kernel())
        )

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that encodes."""
        return (self._kernel(),) if operation is Operation.ENCODE else ()

    def _kernel(self) -> QuantizerKernel:
        return _kernel(self.kind, VALUE_DTYPES[self.dtype], self.importance is not None)


@dataclass(frozen=True, slots=True)
class QuantizerKernel:
    """A kernel that makes blocks of a type.

    Attributes:
        dtype: of the values: `F32`, `BF16` or `F16`.
        is_weighted: whether columns differ in importance.
    """

    kind: str
    dtype: str
    is_weighted: bool

    @property
    def effort(self) -> int:
        """How many times as long as usual numpy takes: 400 ns for a weight of Q4_K."""
        return _SEARCHING if self.is_weighted or self.kind not in _DIRECT else 1

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of all types; code is found at the first call."""
        return importlib.import_module("importer.codecs.kernels.ggml_quantize")

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some rows.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs.ggml import quantizing  # noqa: PLC0415 - it imports numpy

        quantizing.check(NAMED[self.kind], self.dtype, kernel, is_weighted=self.is_weighted)


@functools.cache
def _kernel(kind: str, dtype: str, is_weighted: bool) -> QuantizerKernel:  # noqa: FBT001
    # For every chunk: making one takes a microsecond, and more while caches are cold.
    return QuantizerKernel(kind, dtype, is_weighted)


def quantizer(kind: str, dtype: str, importance: bytes | None = None) -> Quantizer:
    """Return what makes blocks of a type of values of `dtype`.

    Args:
        importance: left out for a type that has no use for it.

    Raises:
        UnsupportedError: values of `dtype` cannot be quantized, or not to this type.
    """
    if kind not in QUANTIZED:
        raise UnsupportedError(
            f"quantizing to {kind}: expected one of {', '.join(QUANTIZED)}", code="E_QUANT_TYPE"
        )
    if dtype not in VALUE_DTYPES:
        raise UnsupportedError(
            f"quantizing {dtype} to {kind}: expected {', '.join(VALUE_DTYPES)}",
            code="E_QUANT_DTYPE",
        )
    return Quantizer(kind, dtype, importance if kind in _WEIGHTED else None)
