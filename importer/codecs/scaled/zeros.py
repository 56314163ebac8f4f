"""Zero points that compressed-tensors packs along the rows of a matrix, not along a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from importer.codecs.scaled.blocks import Grid
from store.fs import Buffer

if TYPE_CHECKING:
    from importer.codecs.reference import Floats

_WORD: Final = 32


@dataclass(frozen=True, slots=True)
class ZeroWords:
    """Words of 32 bits, one below the other, with the zero points of some rows in each.

    Attributes:
        is_padded: whether a word has as many as fit in whole; else they are a stream of bits.
    """

    bits: int
    is_padded: bool

    def count(self, rows: int) -> int:
        """Return the words that hold the zero points of so many rows."""
        if self.is_padded:
            return -(-rows // (_WORD // self.bits))
        return -(-rows * self.bits // _WORD)

    def rows_of(self, grid: Grid, rows: range) -> range:
        """Return the rows of words, of all matrices together, with those of some rows."""
        whole = self.count(grid.rows)
        if not grid.rows * grid.columns * grid.matrices:
            return range(whole * grid.matrices)
        if not len(rows):
            return range(0)
        (first, top), (last, bottom) = (
            divmod(rows.start, grid.rows),
            divmod(rows[-1], grid.rows),
        )
        end = min(self.count(bottom // self._step * self._step + self._step), whole)
        return range(first * whole + self._first(top), last * whole + end)

    def unpack(self, packed: Buffer, grid: Grid, rows: range) -> Floats:
        """Return the zero points of some rows, of shape (rows, blocks of a row).

        Args:
            packed: what `rows_of` tells.
        """
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.scaled import scaling  # noqa: PLC0415

        words = np.frombuffer(packed, "<u4").reshape(-1, grid.across)
        whole, start = self.count(grid.rows), self.rows_of(grid, rows).start
        made, row = [], rows.start
        while row < rows.stop:
            matrix, inside = divmod(row, grid.rows)
            count, before = min(rows.stop - row, grid.rows - inside), inside % self._step
            place = matrix * whole + self._first(inside) - start
            these = words[place : place + self.count(before + count)]
            columns = np.ascontiguousarray(these.T)
            if self.is_padded:
                found = scaling.unpack_padded(columns, self.bits)
            else:
                found = scaling.unpack(columns, self.bits, before + count, None)
            made.append(found[:, before : before + count].T)
            row += count
        return np.concatenate(made).astype(np.float32)

    @property
    def _step(self) -> int:
        """Rows after which a word begins."""
        return _WORD // self.bits if self.is_padded else _WORD

    def _first(self, row: int) -> int:
        """Return the word that begins at or before the zero points of a row."""
        return self.count(row // self._step * self._step)
