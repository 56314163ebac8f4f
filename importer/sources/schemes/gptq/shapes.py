"""Which layouts of GPTQ and AWQ the shapes of qweight, qzeros and scales allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from importer.codecs.gptq.form import Layout

_BITS: Final = range(2, 9)
_WORD: Final = 32
_PER_WORD: Final = 8
"""Codes of 4 bits."""
_GEMV_BITS: Final = 4
_GEMV_SIZES: Final = {32: 4, 64: 2, 128: 1}
"""Sizes of groups, and of how many words a row of zero points is then a multiple."""
_LARGE: Final = 128


class Fit(NamedTuple):
    """A layout that shapes allow.

    Attributes:
        rows: of the weight: what `out` is.
        groups: of a row, among them padding.
    """

    layout: Layout
    bits: int
    rows: int
    columns: int
    groups: int

    def __str__(self) -> str:
        return f"{self.layout} of {self.bits} bits"

    def has_group(self, size: int) -> bool:
        """Whether groups may have a size."""
        match self.layout:
            case Layout.GPTQ:
                return -(-self.columns // size) == self.groups
            case Layout.GEMM:
                return size * self.groups == self.columns
            case Layout.GEMV:
                return (
                    not self.columns % size
                    and _gemv_words(self.columns, size) * _PER_WORD == self.groups
                )

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """The sizes that groups have where nothing is said."""
        if self.layout is Layout.GEMV:
            return tuple(size for size in (*_GEMV_SIZES, self.columns) if self.has_group(size))
        return () if self.columns % self.groups else (self.columns // self.groups,)


def fits(
    qweight: tuple[int, ...],
    qzeros: tuple[int, ...],
    scales: tuple[int, ...],
    columns: int | None,
) -> Iterator[Fit]:
    """Yield the layouts that matrices of some shapes may have.

    Args:
        columns: as many as g_idx has; None without it.
    """
    groups, rows = scales
    for bits in _BITS:
        words = -(-rows * bits // _WORD)
        if qzeros != (groups, words):
            continue
        lines, width = qweight
        # AWQ packs qweight as qzeros, and has no g_idx.
        if width == words and columns is None and lines % groups == 0:
            yield Fit(Layout.GEMM, bits, rows, lines, groups)
        if width == rows:
            wide = lines * _WORD // bits if columns is None else columns
            if -(-wide * bits // _WORD) == lines and groups <= wide:
                yield Fit(Layout.GPTQ, bits, rows, wide, groups)
    rows, words = qweight
    padded = (rows, scales[1] // _PER_WORD)
    if columns is None and scales[1] % _PER_WORD == 0 and (scales[0], qzeros) == (rows, padded):
        yield Fit(Layout.GEMV, _GEMV_BITS, rows, words * _PER_WORD, scales[1])


def _gemv_words(columns: int, size: int) -> int:
    """Return the words of a row of zero points: `calculate_zeros_width` of AutoAWQ 0.2.9."""
    multiple = 1 if size >= _LARGE else _GEMV_SIZES.get(size)
    if multiple is None:
        return 0
    words = -(-(columns // size) // _PER_WORD)
    return -(-words // multiple) * multiple
