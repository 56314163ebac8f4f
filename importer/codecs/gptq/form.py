"""What tells how a weight is stored that GPTQ or AWQ quantized."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Layout(StrEnum):
    """The axes along which codes are packed, `out` being the rows of the weight.

    GPTQ: codes along `in`, zero points along `out`; both arrays are transposed.
    GEMM: both along `out`, and transposed.
    GEMV: codes along `in`, zero points along groups, nothing transposed; rows of scales and
        zero points are padded.
    """

    GPTQ = "gptq"
    GEMM = "gemm"
    GEMV = "gemv"


@dataclass(frozen=True, slots=True)
class GptqForm:
    """How codes, zero points and scales of a matrix are stored.

    Attributes:
        method: `gptq` or `awq`.
        bits: of a code, 2 to 8.
        group_size: columns of a group, counted without the order that g_idx makes.
        groups: of a row, among them padding.
        scale_dtype: F16, BF16 or F32.
        is_planar: whether codes are cut to planes.
        less_one: whether zero points are stored less one.
        has_groups: whether there is a g_idx.
        is_reordered: whether columns are in other groups than their places say.
    """

    method: str
    layout: Layout
    bits: int
    group_size: int
    groups: int
    scale_dtype: str
    is_planar: bool = False
    less_one: bool = False
    has_groups: bool = False
    is_reordered: bool = False

    def __str__(self) -> str:
        order = " act-order" if self.is_reordered else ""
        return f"{self.method} int{self.bits}/{self.group_size}{order}"

    @property
    def is_transposed(self) -> bool:
        """Whether a row of the weight is a column of each array."""
        return self.layout is not Layout.GEMV
