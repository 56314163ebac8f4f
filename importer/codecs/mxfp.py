"""Small floats under a power of two: the OCP's MXFP4 and MXFP8, as MLX rounds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from importer.codecs.grouped import Grouped
from store.tensorblob import SCALE

if TYPE_CHECKING:
    from importer.codecs.reference import Arithmetic


@dataclass(frozen=True, slots=True)
class Mxfp(Grouped):
    """`value = code * 2 ** (scale - 127)`; codes are E2M1 or E4M3, scales E8M0."""

    GROUP_SIZES: ClassVar = frozenset({32})

    @property
    def companions(self) -> tuple[tuple[str, str], ...]:
        """A scale of one byte."""
        return ((SCALE, "U8"),)

    @property
    def arithmetic(self) -> Arithmetic:
        """The rules."""
        from importer.codecs.reference import mxfp  # noqa: PLC0415 - it imports numpy

        return mxfp
