"""Four-bit floats under an eight-bit float: NVIDIA's NVFP4, as MLX rounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from importer.codecs.grouped import Grouped
from store.tensorblob import SCALE

if TYPE_CHECKING:
    from importer.codecs.reference import Arithmetic


@dataclass(frozen=True, slots=True)
class Nvfp4(Grouped):
    """`value = code * scale`; codes are E2M1, scales E4M3. There is no scale of the tensor."""

    GROUP_SIZES: ClassVar = frozenset({16})

    @property
    def companions(self) -> tuple[tuple[str, str], ...]:
        """A scale of one byte."""
        return ((SCALE, "U8"),)

    @property
    def arithmetic(self) -> Arithmetic:
        """The rules."""
        from importer.codecs.reference import nvfp4  # noqa: PLC0415 - it imports numpy

        return nvfp4
