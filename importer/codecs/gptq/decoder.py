"""Weights that GPTQ or AWQ quantized: packed codes, zero points and scales.

Facts: docs/formats/gptq-awq-bnb.md.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.gptq.form import GptqForm, Layout
from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, QuantSpec
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

MOST_COLUMNS: Final = 1 << 18
"""Columns of a matrix, so that the rows that are read together fit into memory."""

_UNIT: Final = 1 << 20
"""Values that are decoded together: 4 MiB of them."""
_BY_COLUMNS: Final = 2
"""As many times that where codes are packed along rows, or runs would be a few bytes."""
_BLOCK: Final = 32
"""Rows whose zero points fill whole words, of whatever number of bits."""
_BYTE: Final = 8
_WORD: Final = 32


@dataclass(frozen=True, slots=True)
class Gptq(GptqForm):
    """Reads `(code - zero) * scale`, with a scale and a zero point for each group of columns.

    The arrays are qweight, qzeros, scales and, if it has one, g_idx: the group of each column.
    Values are F32, in which they are exact for scales of 16 bits; rounded to F16 they are what
    GPTQModel computes in F16.
    """

    @property
    def value_dtype(self) -> str:
        """F32: see the class."""
        return "F32"

    def unit(self, shape: Shape) -> int:
        """Return the elements of the rows that are worth a run."""
        rows, columns = shape
        values = _UNIT * _BY_COLUMNS if self.layout is Layout.GEMM else _UNIT
        fit = values // max(columns, 1) // _BLOCK * _BLOCK
        return max(min(rows, max(fit, _BLOCK)) * columns, 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return some rows' part of each array; all of g_idx."""
        rows, columns = shape
        if not len(elements):
            return (Span(0, 0),) * (4 if self.has_groups else 3)
        some = range(elements.start // columns, elements.stop // columns)
        item = ITEM_BITS[self.scale_dtype]
        if self.layout is Layout.GEMV:
            words = -(-self.groups * self.bits // _WORD)
            widths = (columns * self.bits // _BYTE, 4 * words, self.groups * item // _BYTE)
            return tuple(Span(some.start * width, len(some) * width) for width in widths)
        zeros = _columns(some, rows, self.bits, self.groups)
        scales = _columns(some, rows, item, self.groups, item)
        if self.layout is Layout.GEMM:
            return (_columns(some, rows, self.bits, columns), zeros, scales)
        lines = -(-columns * self.bits // _WORD)
        spans = (_columns(some, rows, _WORD, lines), zeros, scales)
        return (*spans, Span(0, 4 * columns)) if self.has_groups else spans

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole rows.

        Raises:
            InputError: g_idx is no longer what it was.
        """
        from importer.codecs.gptq import values as gptq_values  # noqa: PLC0415 - it imports numpy

        return gptq_values.decode(self, arrays, shape, elements, runtime.kernel(self._kernel))

    def holds(self, shape: Shape) -> QuantSpec | None:
        """Return the affine type that holds the codes, with F32 scales and biases, or None.

        There is none for 7 bits, for scales of F32, whose products are rounded, for columns in
        another order, and for groups that are not of 32, 64 or 128 columns or of several.
        """
        spec = QUANT_TYPES.get(f"int{self.bits}")
        if spec is None or self.is_reordered or self.scale_dtype == "F32":
            return None
        columns = shape[-1]
        whole = columns if self.group_size >= columns else math.gcd(columns, self.group_size)
        sizes = [size for size in GROUP_SIZES[spec.mode] if whole % size == 0]
        return spec._replace(group_size=max(sizes)) if sizes else None

    def repack(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,
        elements: range,
        runtime: Runtime,  # noqa: ARG002 - words move, and few codes are unpacked
    ) -> Encoded:
        """Return whole rows as the parts of the type that holds them, for values of F32.

        Decoded, they are the same numbers; a zero may have another sign. Values of groups
        whose scale is not finite are counted.
        """
        from importer.codecs.gptq import values as gptq_values  # noqa: PLC0415 - it imports numpy

        spec = self.holds(shape)
        assert spec is not None, f"no type of the store holds the codes of {self}"
        return gptq_values.repack(self, arrays, shape, elements, spec)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return the kernel that decodes; nothing is encoded."""
        return (self._kernel,)

    @property
    def _kernel(self) -> GptqKernel:
        return _KERNELS[self.layout is Layout.GEMM]


def _columns(some: range, rows: int, bits: int, lines: int, word: int = _WORD) -> Span:
    """Return the places of some rows in `lines` lines that have `bits` for each row."""
    width = -(-rows * bits // word) * word // _BYTE
    begin = some.start * bits // _BYTE
    end = width if some.stop == rows else some.stop * bits // _BYTE
    if (begin, end) == (0, width):
        return Span(0, width * lines)
    return Span(begin, (end - begin) * lines, lines, width)


@dataclass(frozen=True, slots=True)
class GptqKernel:
    """The kernel that decodes what is packed along columns, or along rows.

    Attributes:
        along_rows: as AWQ's gemm is.
    """

    along_rows: bool

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        return importlib.import_module("importer.codecs.kernels.gptq")

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on matrices that are packed so.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs.gptq import values as gptq_values  # noqa: PLC0415 - it imports numpy

        gptq_values.check(kernel, along_rows=self.along_rows)


_KERNELS: Final = (GptqKernel(along_rows=False), GptqKernel(along_rows=True))
