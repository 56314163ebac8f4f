"""Integers between the extremes of a group: MLX's mode `affine`, 2 to 8 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from importer.codecs.grouped import Grouped
from store.tensorblob import BIAS, SCALE

if TYPE_CHECKING:
    from importer.codecs.reference import Arithmetic


@dataclass(frozen=True, slots=True)
class Affine(Grouped):
    """`value = scale * code + bias`; scale and bias have the dtype of the values."""

    GROUP_SIZES: ClassVar = frozenset({32, 64, 128})

    @property
    def companions(self) -> tuple[tuple[str, str], ...]:
        """A scale and a bias."""
        return ((SCALE, self.value_dtype), (BIAS, self.value_dtype))

    @property
    def arithmetic(self) -> Arithmetic:
        """The rules."""
        from importer.codecs.reference import affine  # noqa: PLC0415 - it imports numpy

        return affine
