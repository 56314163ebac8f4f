"""Matrices in blocks that share a scale: where the scales of some rows are.

Nothing here imports numpy: a plan needs shapes alone.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from importer.codecs.base import Shape, Span
from store.tensorfile import ITEM_BITS

_MATRIX: Final = 2

Block = tuple[int, int]
"""Rows and columns that share a scale; 0 stands for all of a matrix."""


class Grid(NamedTuple):
    """The blocks of a tensor, which is a matrix or a stack of them.

    A row or column of blocks at the end may have fewer rows or columns.

    Attributes:
        matrices: that are cut into blocks one by one.
        rows: of a matrix, in elements, as `columns` are.
        height: rows of a block.
        width: columns of a block.
        down: rows of scales of a matrix.
        across: scales in a row of them.

    Example:
        >>> Grid.of((300, 512), (128, 128)).scales
        (3, 4)
    """

    matrices: int
    rows: int
    columns: int
    height: int
    width: int
    down: int
    across: int

    @classmethod
    def of(cls, shape: Shape, block: Block, *, is_shared: bool = False) -> Grid:
        """Return the grid of a tensor.

        Args:
            shape: logical; a tensor of fewer dimensions than two is one row.
            is_shared: whether blocks go through a whole stack, as if it was one matrix.
        """
        *outer, rows, columns = (1, 1, *shape)[-max(len(shape), _MATRIX) :]
        matrices = math.prod(outer)
        if is_shared:
            matrices, rows = 1, matrices * rows
        height, width = block
        down = -(-rows // height) if height else 1
        across = -(-columns // width) if width else 1
        # A block that is as wide as the matrix is not one of those that are a column wide.
        height, width = height or max(rows, 1), width or max(columns, 2)
        return cls(matrices, rows, columns, height, width, down, across)

    @property
    def sides(self) -> Block:
        """Rows and columns that share a scale; 0 for all, however the block was given."""
        return (self.height if self.down > 1 else 0), (self.width if self.across > 1 else 0)

    @property
    def scales(self) -> tuple[int, int]:
        """Rows of scales of all matrices, and scales in each."""
        return self.matrices * self.down, self.across

    def rows_of(self, elements: range) -> range:
        """Return the rows, of all matrices together, that some elements lie in."""
        columns = max(self.columns, 1)
        return range(elements.start // columns, -(-elements.stop // columns))

    def scale_rows(self, rows: range) -> range:
        """Return the rows of scales of some rows; all of them where there are no rows."""
        if not self.matrices * self.rows * self.columns:
            return range(self.scales[0])
        first = self.scale_row(rows.start) if len(rows) else 0
        return range(first, self.scale_row(rows[-1]) + 1 if len(rows) else first)

    def scale_row(self, row: int) -> int:
        """Return the row of scales of a row."""
        matrix, inside = divmod(row, self.rows)
        return matrix * self.down + inside // self.height

    def scale_span(self, elements: range, dtype: str) -> Span:
        """Return the bytes of the scales of some elements, which are stored as `dtype`."""
        wanted = self.scale_rows(self.rows_of(elements))
        row = self.across * ITEM_BITS[dtype] // 8
        return Span(wanted.start * row, len(wanted) * row)
