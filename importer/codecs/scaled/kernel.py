"""The kernel that multiplies codes by scales, as a value that says which one is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScaledKernel:
    """The kernel that multiplies codes by the scales of their blocks.

    Attributes:
        kind: what a code is, of `reference.scaled.TABLES`.
        dtype: of the values.
        bits: of codes that are packed in words, or 0 where each has a byte.
        has_zeros: whether there are zero points.
        is_line: whether blocks are a column wide.
    """

    kind: str
    dtype: str
    bits: int = 0
    has_zeros: bool = False
    is_line: bool = False

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        from importer.codecs.kernels import scaled  # noqa: PLC0415 - only where it is used

        return scaled

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some blocks.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs.scaled import scaling  # noqa: PLC0415 - it imports numpy

        scaling.check(self, kernel)
