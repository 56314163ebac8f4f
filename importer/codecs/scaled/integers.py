"""Integers of 2 to 8 bits with scales and zero points: compressed-tensors' and ModelOpt's.

`scaled_codes` is apart from what multiplies: a type of the store that has the same codes needs
no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from importer.codecs.base import Encoded, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.scaled.block_fp8 import in_words
from importer.codecs.scaled.blocks import Block, Grid
from importer.codecs.scaled.kernel import ScaledKernel
from importer.codecs.scaled.zeros import ZeroWords
from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, QuantSpec, with_group_size
from store.fs import Buffer

if TYPE_CHECKING:
    from importer.codecs.reference import Codes
    from importer.codecs.reference.scaled import ScaledCodes

_WORD: Final = 32
_PAIR: Final = 2
_BYTE: Final = 8


@unique
class Layout(StrEnum):
    """How codes are stored."""

    WORDS = "words"
    """In I32 along a row, a stream of bits without gaps; the code is the number plus half."""
    PADDED = "padded"
    """In I32 along a row, as many as fit into each word whole; likewise."""
    BYTES = "bytes"
    """Each in an I8."""
    ROWS = "rows"
    """Of 4 bits, those of two rows in the halves of a U8, in two's complement."""


@unique
class Zeros(StrEnum):
    """How zero points are stored."""

    NONE = "none"
    PACKED = "packed"
    """Like the codes, but along the rows of the matrix."""
    BYTES = "bytes"
    """Each in an I8, like the scales."""


@dataclass(frozen=True, slots=True)
class PackedInt:
    """Reads integers: codes, scales, and where there are some zero points, groups, shape.

    Attributes:
        family: who writes them, as people are told.
        scales: the dtype of the scales.
        block: rows and columns that share one.
        has_order: whether an array tells the group of each column (act-order).
        sides: numbers in the array that tells the logical shape, or 0 without one.
    """

    family: str
    bits: int
    scales: str
    block: Block
    layout: Layout = Layout.WORDS
    zeros: Zeros = Zeros.NONE
    has_order: bool = False
    sides: int = 0

    def __str__(self) -> str:
        height, width = self.block
        words = f"/{width}" if height == 1 and width else f" {in_words(self.block)}".rstrip()
        return f"{self.family} int{self.bits}{words}"

    @property
    def value_dtype(self) -> str:
        """Return F32: there products are exact, unless the scales have as many digits.

        Rounded once, they are what compressed-tensors decodes to, in the scales' dtype.
        """
        return "F32"

    def words(self, columns: int) -> int:
        """Return the elements of the packed array in a row of so many columns."""
        match self.layout:
            case Layout.WORDS:
                return -(-columns * self.bits // _WORD)
            case Layout.PADDED:
                return -(-columns // (_WORD // self.bits))
            case _:
                return columns

    def unit(self, shape: Shape) -> int:
        """Return the elements of a row, or of two where these share bytes."""
        columns = max(Grid.of(shape, self.block).columns, 1)
        return columns * _PAIR if self.layout is Layout.ROWS else columns

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what is stored of the rows; of what tells groups and shape everything."""
        grid = Grid.of(shape, self.block)
        rows = grid.rows_of(elements)
        row = self.words(grid.columns) * (4 if self._is_words else 1)
        if self.layout is Layout.ROWS:
            found = [Span(rows.start // _PAIR * row, len(rows) // _PAIR * row)]
        else:
            found = [Span(rows.start * row, len(rows) * row)]
        found.append(grid.scale_span(elements, self.scales))
        match self.zeros:
            case Zeros.PACKED:
                wanted = self.zero_words.rows_of(grid, rows)
                size = 4 * grid.across
                found.append(Span(wanted.start * size, len(wanted) * size))
            case Zeros.BYTES:
                found.append(grid.scale_span(elements, "I8"))
        if self.has_order:
            found.append(Span(0, 4 * grid.columns))
        if self.sides:
            found.append(Span(0, 8 * self.sides))
        return tuple(found)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of whole rows.

        Raises:
            InputError: what tells the groups of columns does not.
        """
        from importer.codecs.scaled import scaling  # noqa: PLC0415 - a plan needs no numpy

        if not len(elements):
            return b""
        grid = Grid.of(shape, self.block)
        rows = grid.rows_of(elements)
        found = self.scaled_codes(arrays, shape, elements, runtime)
        kernel = runtime.kernel(self._kernel(is_line=found.width == 1))
        return scaling.decode(found, scaling.places_of(grid, rows), self.value_dtype, kernel)

    def scaled_codes(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> ScaledCodes:
        """Return the codes of whole rows, and the scales and zero points of their blocks.

        Raises:
            InputError: what tells the groups of columns does not.
        """
        import numpy as np  # noqa: PLC0415 - as above

        from importer.codecs.reference.scaled import ScaledCodes  # noqa: PLC0415
        from importer.codecs.scaled import scaling  # noqa: PLC0415

        grid = Grid.of(shape, self.block)
        rows = grid.rows_of(elements)
        packed, scale, *rest = arrays
        codes = self._codes(packed, grid, runtime)
        scales, zeros = scaling.read_scales(scale, self.scales, grid.across), None
        match self.zeros:
            case Zeros.PACKED:
                zeros = self.zero_words.unpack(rest.pop(0), grid, rows)
            case Zeros.BYTES:
                zeros = np.frombuffer(rest.pop(0), np.int8).astype(np.float32)
                zeros = zeros.reshape(scales.shape) + np.float32(self._offset)
            case _ if self._offset:
                zeros = np.full(scales.shape, self._offset, np.float32)
        width = grid.width
        if self.has_order:
            groups = scaling.groups_of(rest.pop(0), grid)
            if groups is not None:
                width, scales = 1, scales[:, groups]
                zeros = None if zeros is None else zeros[:, groups]
        return ScaledCodes(codes, self._kind, scales, width, zeros)

    def holds(self, shape: Shape) -> QuantSpec | None:
        """Return the affine type that has the same groups, or smaller ones; None without.

        Groups that an array tells may be scattered. Products of scales in F32 are rounded.
        """
        columns = Grid.of(shape, self.block).columns
        width = self.block[1] or columns
        is_short = self.layout is Layout.BYTES and self.bits < _BYTE  # of what may be larger
        if self.has_order or is_short or self.scales == "F32":
            return None
        if f"int{self.bits}" not in QUANT_TYPES:
            return None
        spec = QUANT_TYPES[f"int{self.bits}"]
        for size in sorted(GROUP_SIZES[spec.mode], reverse=True):
            if width and not width % size and not columns % size:
                return with_group_size(spec, size)
        return None

    def repack(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return whole rows as the parts of the type that holds them."""
        from importer.codecs.scaled import repacked as repacked_int  # noqa: PLC0415 - as above
        from importer.codecs.scaled import scaling  # noqa: PLC0415 - as above

        spec = self.holds(shape)
        assert spec is not None, f"no type of the store holds {self}"
        grid = Grid.of(shape, self.block)
        found = self.scaled_codes(arrays, shape, elements, runtime)
        places = scaling.places_of(grid, grid.rows_of(elements))
        return repacked_int.repack(found, places, spec)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernels that unpack and multiply."""
        if operation is not Operation.DECODE:
            return ()
        lines = (False, True) if self.has_order else (self.block[1] == 1,)
        return tuple(self._kernel(is_line=is_line) for is_line in lines)

    @property
    def zero_words(self) -> ZeroWords:
        """How packed zero points are stored."""
        return ZeroWords(self.bits, is_padded=self.layout is Layout.PADDED)

    @property
    def _is_words(self) -> bool:
        return self.layout in {Layout.WORDS, Layout.PADDED}

    @property
    def _kind(self) -> str:
        if self._is_words:
            return "U8"
        return "I4" if self.layout is Layout.ROWS else "I8"

    @property
    def _offset(self) -> int:
        """What was added to numbers before they were packed."""
        return 1 << (self.bits - 1) if self._is_words else 0

    def _kernel(self, *, is_line: bool) -> ScaledKernel:
        return ScaledKernel(
            self._kind,
            self.value_dtype,
            self.bits if self.layout is Layout.WORDS else 0,
            has_zeros=self._is_words or self.zeros is not Zeros.NONE,
            is_line=is_line,
        )

    def _codes(self, packed: Buffer, grid: Grid, runtime: Runtime) -> Codes:
        import numpy as np  # noqa: PLC0415 - as above

        from importer.codecs.scaled import scaling  # noqa: PLC0415

        columns = grid.columns
        match self.layout:
            case Layout.WORDS:
                words = np.frombuffer(packed, "<u4").reshape(-1, self.words(columns))
                kernel = runtime.kernel(self._kernel(is_line=self.block[1] == 1))
                return scaling.unpack(words, self.bits, columns, kernel)
            case Layout.PADDED:
                words = np.frombuffer(packed, "<u4").reshape(-1, self.words(columns))
                return scaling.unpack_padded(words, self.bits)[:, :columns]
            case Layout.BYTES:
                return np.frombuffer(packed, np.uint8).reshape(-1, columns)
            case Layout.ROWS:
                pairs = np.frombuffer(packed, np.uint8).reshape(-1, 1, columns)
                return np.concatenate([pairs & 15, pairs >> 4], axis=1).reshape(-1, columns)
