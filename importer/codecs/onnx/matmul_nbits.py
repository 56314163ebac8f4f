"""Weights of onnxruntime's MatMulNBits: rows of blocks of packed codes, with scales aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from importer.codecs.base import (
    Decoder,
    Encoded,
    KernelSpec,
    Operation,
    Runtime,
    Shape,
    Span,
)
from importer.codecs.spec import QUANT_TYPES, QuantSpec, with_group_size
from importer.codecs.views.section import read_section, section_span
from store.errors import InputError
from store.fs import Buffer

if TYPE_CHECKING:  # a plan needs no numpy
    from importer.codecs.reference import Floats

_BYTE: Final = 8
_GROUPS: Final = (32, 64, 128)
_MATRIX: Final = 2
LARGEST: Final = 1 << 22
"""Elements of a row, which is decoded at once."""


@dataclass(frozen=True, slots=True)
class MatMulNBits:
    """Reads codes `[out, blocks, bytes]`, scales, zero points, and the blocks of columns.

    Attributes:
        bits: of a code: 2, 4 or 8.
        block: columns that have one scale; a power of two of at least 16.
        codes: of bytes.
        scale: of F32, F16 or BF16, one for each block of each row.
        zero: of bytes of packed codes, rows filled up to whole bytes; or of floats, one for
            each scale; None for half of what codes can be.
        groups: of a number for each column, the block whose scale it has; None for its own.
    """

    bits: int
    block: int
    codes: Decoder
    scale: Decoder
    zero: Decoder | None = None
    groups: Decoder | None = None
    value_dtype = "F32"

    def __str__(self) -> str:
        return f"MatMulNBits int{self.bits}/{self.block}"

    def unit(self, shape: Shape) -> int:
        """Return the elements of a row."""
        return max(shape[-1], 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the rows' codes, scales and zero points, and the blocks of all columns."""
        return tuple(
            section_span(decoder, whole, some)
            for decoder, whole, some in self._sections(shape, elements)
        )

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole rows."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import matmul_nbits as reference  # noqa: PLC0415

        if not len(elements):
            return b""
        columns = shape[-1]
        rows, blocks = len(elements) // columns, self._blocks(columns)
        data = self._read(arrays, shape, elements, runtime)
        codes = reference.rows_of_codes(data[0], self.bits, rows, blocks * self.block)
        scale, zero = self._aside(data, rows, blocks)
        if self.groups is not None:
            groups = np.frombuffer(data[-1], "<i4")
            try:
                scale = reference.by_column(scale, groups)
                zero = reference.by_column(np.broadcast_to(zero, (rows, blocks)), groups)
            except IndexError:
                raise InputError(
                    f"a column of a weight of {blocks} blocks has the scale of another one",
                    code="E_ONNX_GROUPS",
                ) from None
            codes = codes[:, :columns]
        else:
            codes = codes.reshape(rows, blocks, self.block)
            scale, zero = scale[:, :, None], zero[:, :, None]
        compute = reference.dequantize_moved if self._is_moved else reference.dequantize
        values = compute(codes, zero, scale).reshape(rows, -1)[:, :columns]
        return np.ascontiguousarray(values).reshape(-1).view("u1").data

    def holds(self, shape: Shape) -> QuantSpec | None:
        """Return the type of the store that holds codes and values exactly, or None.

        A value of the store is `code * scale + bias`, rounded twice. That is exact for scales
        of F16 and BF16, and it is the computation itself where zero points are floats.
        """
        spec = QUANT_TYPES.get(f"int{self.bits}")
        is_exact = self._is_moved or self.scale.value_dtype != "F32"
        if spec is None or self.groups is not None or shape[-1] % self.block or not is_exact:
            return None
        return with_group_size(spec, self.block) if self.block in _GROUPS else None

    def repack(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return whole rows as codes, scales and biases of the store, for values of F32.

        Codes are packed alike. A zero may have another sign. Values of blocks whose products
        are not finite are counted, and are not the same.
        """
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        assert self.holds(shape) is not None, f"no type of the store holds {self}"
        data = self._read(arrays, shape, elements, runtime)
        rows = len(elements) // max(shape[-1], 1)
        scale, zero = self._aside(data, rows, self._blocks(shape[-1]))
        with np.errstate(over="ignore", invalid="ignore"):
            bias = np.ascontiguousarray(-scale * zero)
            products = scale * np.float32(1 << self.bits)
        inexact = np.count_nonzero(~(np.isfinite(products) & np.isfinite(bias)))
        small = (one.reshape(-1).view("u1").data for one in (scale, bias))
        return Encoded((data[0], *small), int(inexact) * self.block)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    def shapes(self, shape: Shape) -> tuple[Shape, Shape, Shape, Shape]:
        """Return the shapes of codes, scales, zero points and groups, in their elements."""
        rows, columns = shape
        blocks = self._blocks(columns)
        packed = -(-blocks * self.bits // _BYTE) if self._is_packed else blocks
        nbytes = self.block * self.bits // _BYTE
        return (rows, blocks, nbytes), (rows, blocks), (rows, packed), (columns,)

    def _read(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> list[memoryview]:
        """Return the bytes of the elements that are needed of each array."""
        return [
            read_section(decoder, array, whole, some, runtime)
            for (decoder, whole, some), array in zip(
                self._sections(shape, elements), arrays, strict=True
            )
        ]

    def _aside(
        self, data: Sequence[memoryview], rows: int, blocks: int
    ) -> tuple[Floats, Floats]:
        """Return scales, and zero points in a shape that broadcasts with them."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.dequantize_linear import scales  # noqa: PLC0415
        from importer.codecs.reference.matmul_nbits import rows_of_codes  # noqa: PLC0415

        scale = scales(data[1], self.scale.value_dtype).reshape(rows, blocks)
        if self.zero is None:
            return scale, np.full((1, 1), 1 << (self.bits - 1), np.float32)
        if self._is_packed:
            return scale, rows_of_codes(data[2], self.bits, rows, blocks).astype(np.float32)
        return scale, scales(data[2], self.zero.value_dtype).reshape(rows, blocks)

    @property
    def _is_packed(self) -> bool:
        return self.zero is not None and self.zero.value_dtype == "U8"

    @property
    def _is_moved(self) -> bool:
        return self.groups is not None or (self.zero is not None and not self._is_packed)

    def _blocks(self, columns: int) -> int:
        return -(-columns // self.block)

    def _sections(self, shape: Shape, elements: range) -> list[tuple[Decoder, Shape, range]]:
        """Return decoder and shape of each array, and which of its elements are needed."""
        columns = max(shape[-1], 1)
        first, end = elements.start // columns, elements.stop // columns
        found = []
        wholes = self.shapes(shape)
        decoders = (self.codes, self.scale, self.zero)
        for decoder, whole in zip(decoders, wholes[:3], strict=True):
            if decoder is not None:
                each = whole[1] * (whole[2] if len(whole) > _MATRIX else 1)
                found.append((decoder, whole, range(first * each, end * each)))
        if self.groups is not None:
            found.append((self.groups, wholes[3], range(shape[-1] if len(elements) else 0)))
        return found
