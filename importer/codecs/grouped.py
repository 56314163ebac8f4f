"""What all quantizations share: groups along the last axis, each with a scale of its own.

Nothing here imports numpy: a plan needs shapes, and an import that quantizes nothing needs
no arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from importer.codecs.base import Encoded, Operation, Part, Shape
from importer.codecs.spec import VALUE_DTYPES, QuantSpec
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

if TYPE_CHECKING:
    from importer.codecs.reference import Arithmetic

_WORD: Final = 32
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Grouped(ABC):
    """A quantization of a family that the subclass names.

    Attributes:
        GROUP_SIZES: that the family has.
        dtype: of the source; one of `VALUE_DTYPES`.
    """

    GROUP_SIZES: ClassVar[frozenset[int]]

    spec: QuantSpec
    dtype: str

    @property
    def value_dtype(self) -> str:
        """The dtype of the values that are quantized, and of those that `decode` gives."""
        return VALUE_DTYPES[self.dtype]

    @property
    @abstractmethod
    def companions(self) -> tuple[tuple[str, str], ...]:
        """Suffix and dtype of the small parts, which have one element for each group."""

    @property
    @abstractmethod
    def arithmetic(self) -> Arithmetic:
        """The rules of the family, in numpy."""

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Packed words, then what belongs to each group."""
        *outer, columns = shape
        bits, group_size = self.spec.bits, self.spec.group_size
        assert columns % group_size == 0, f"{columns} columns in groups of {group_size}"
        words = Part("", "U32", (*outer, columns * bits // _WORD))
        small = (*outer, columns // group_size)
        return (words, *(Part(suffix, dtype, small) for suffix, dtype in self.companions))

    def row_bytes(self, shape: Shape) -> int:  # noqa: ARG002 - a group is smaller than a row
        """Bytes of one group: no group looks at another."""
        return self.spec.group_size * ITEM_BITS[self.dtype] // _BYTE

    def encode(self, rows: memoryview) -> Encoded:
        """Quantize a whole number of groups."""
        from importer.codecs import runtime  # noqa: PLC0415 - it imports numpy

        return runtime.encode(self, rows, runtime.ready(Operation.ENCODE, self))

    def decode(self, parts: Sequence[Buffer]) -> Buffer:
        """Give the values that whole groups stand for."""
        from importer.codecs import runtime  # noqa: PLC0415 - it imports numpy

        return runtime.decode(self, parts, runtime.ready(Operation.DECODE, self))
