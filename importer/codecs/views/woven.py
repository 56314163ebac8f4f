"""Rows of several arrays that take turns in one tensor.

Rows move as a whole, so that rows of quantized blocks move without being decoded: `of_bytes` is
the same order for the bytes of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

from importer.codecs.base import Blocks, Decoder, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.plain import is_plain
from importer.codecs.views.row_bytes import blocks_in, bytes_reader
from store.fs import Buffer

_LARGEST: Final = 1 << 24
"""Elements of one turn, at most: they may have to be decoded together."""


class Strand(NamedTuple):
    """Some following rows of one array.

    Attributes:
        array: its number.
        rows: how many are taken, each time that its turn comes.
    """

    array: int
    rows: int


class Pattern(NamedTuple):
    """Strands that take turns.

    Attributes:
        strands: in the order of the result.
        times: how often all have their turn.
    """

    strands: tuple[Strand, ...]
    times: int

    @property
    def rows(self) -> int:
        """Rows of one turn of all."""
        return sum(strand.rows for strand in self.strands)


@dataclass(frozen=True, slots=True)
class Woven:
    """Reads rows of several arrays in turn: `q`, `k` and `v` of each head, gates and ups.

    Each array's rows keep their order, so that any rows of the result are neighbors in every
    array.

    Attributes:
        inners: the decoder of each array.
        patterns: what the result is made of, one after the other; together they take every
            row of every array once.
        width: elements of a row.
    """

    inners: tuple[Decoder, ...]
    patterns: tuple[Pattern, ...]
    width: int

    @property
    def value_dtype(self) -> str:
        """The dtype of all arrays' values; F32, which holds them, where they differ."""
        (first, *others) = {inner.value_dtype for inner in self.inners}
        return "F32" if others else first

    @property
    def is_plain(self) -> bool:
        """Whether the values are stored as they are."""
        return all(is_plain(inner) for inner in self.inners)

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return sum(pattern.rows * pattern.times for pattern in self.patterns)

    @property
    def is_by_row(self) -> bool:
        """Whether each row can be decoded alone."""
        return all(self.width % inner.unit((1, self.width)) == 0 for inner in self.inners)

    def can_read(self, shape: Shape) -> bool:
        """Return whether the patterns fill the shape, and little is decoded together."""
        return (
            self.width > 0
            and all(strand.rows > 0 for one in self.patterns for strand in one.strands)
            and math.prod(shape) == self.rows * self.width
            and (self.is_by_row or self._is_by_turn())
        )

    @property
    def blocks_moved(self) -> Blocks | None:
        """The decoder of the blocks that rows are of; None where not all are alike."""
        return blocks_in(self.inners)

    def of_bytes(self, row_bytes: int) -> Self | None:
        """Return the decoder that weaves rows of bytes in the same way."""
        readers = [bytes_reader(inner, row_bytes) for inner in self.inners]
        inners = tuple(reader for reader in readers if reader is not None)
        if len(inners) < len(readers):
            return None
        return replace(self, inners=inners, width=row_bytes)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return the elements of a row, or of one turn of all arrays."""
        return self.width if self.is_by_row else self.patterns[0].rows * self.width

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the bytes of each array's rows."""
        spans: list[Span] = []
        for number, inner in enumerate(self.inners):
            spans += inner.spans(self._matrix(number), self._taken(number, elements))
        return tuple(spans)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002
        elements: range,
        runtime: Runtime,
    ) -> Buffer:
        """Return the rows in turn."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of, matrix_of  # noqa: PLC0415

        first, last = elements.start // self.width, elements.stop // self.width
        owners = self._owners(first, last)
        made: Any = None
        for number, (inner, array) in enumerate(zip(self.inners, arrays, strict=True)):
            taken = self._taken(number, elements)
            values = inner.decode([array], self._matrix(number), taken, runtime)
            rows = matrix_of(values, inner.value_dtype, self.value_dtype, self.width)
            if made is None:
                made = np.empty((last - first, self.width), rows.dtype)
            made[owners == number] = rows
        return bytes_of(made)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return those of all inner decoders."""
        found = (kernel for inner in self.inners for kernel in inner.kernels(operation))
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        return "+".join(dict.fromkeys(map(str, self.inners)))

    def _is_by_turn(self) -> bool:
        """Return whether what every array gives in its turn can be decoded alone."""
        turn = self.patterns[0].rows * self.width
        return (
            turn <= _LARGEST
            and all(pattern.rows * self.width == turn for pattern in self.patterns)
            and all(
                strand.rows * self.width % self.inners[strand.array].unit((1, self.width)) == 0
                for pattern in self.patterns
                for strand in pattern.strands
            )
        )

    def _matrix(self, number: int) -> Shape:
        return (self._taken_before(number, self.rows), self.width)

    def _taken(self, number: int, elements: range) -> range:
        """Return the elements of an array that some of the result's are."""
        first, last = elements.start // self.width, elements.stop // self.width
        start, stop = self._taken_before(number, first), self._taken_before(number, last)
        return range(start * self.width, stop * self.width)

    def _taken_before(self, number: int, row: int) -> int:
        """Return how many rows of an array are in the result before a row."""
        taken = 0
        for pattern in self.patterns:
            here = min(row, pattern.rows * pattern.times)
            row -= here
            turns, rest = divmod(here, pattern.rows)
            for strand in pattern.strands:
                mine = turns * strand.rows + min(rest, strand.rows)
                taken += mine if strand.array == number else 0
                rest -= min(rest, strand.rows)
        return taken

    def _owners(self, first: int, last: int) -> Any:  # noqa: ANN401 - numpy
        """Return the number of the array that each row of the result is from."""
        import numpy as np  # noqa: PLC0415 - as above

        rows = np.arange(first, last)
        owners = np.empty(last - first, np.int64)
        start = 0
        for pattern in self.patterns:
            turn = np.repeat(
                [strand.array for strand in pattern.strands],
                [strand.rows for strand in pattern.strands],
            )
            stop = start + pattern.rows * pattern.times
            mine = (rows >= start) & (rows < stop)
            owners[mine] = turn[(rows[mine] - start) % pattern.rows]
            start = stop
        return owners
