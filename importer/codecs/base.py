"""The contract of a codec, and its laws.

1. `encode` gives what `parts` promised.
2. Pieces are independent: however rows are split, the parts joined are the same bytes.
3. What MLX makes of the same values is the same, bit for bit.

The second law makes chunks, threads and bounded memory possible, and digests repeatable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, Protocol

from store.fs import Buffer
from store.tensorfile import data_bytes

REVISION: Final = 1
"""Of what the codecs make of their input; raised when any of them makes other bytes."""

Shape = tuple[int, ...]


@unique
class Operation(StrEnum):
    """What a codec does, each by code of its own."""

    ENCODE = "encode"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Part:
    """One array that a codec makes of a tensor.

    Attributes:
        suffix: put after the tensor's name; empty for the weights themselves.
    """

    suffix: str
    dtype: str
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return data_bytes(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Encoded:
    """What became of some rows.

    Attributes:
        parts: one piece of each part, as bytes.
        nonfinite: NaNs and infinities among the values, which a type that scales by the
            largest value of a group cannot hold. A codec that does not look says 0.
    """

    parts: tuple[Buffer, ...]
    nonfinite: int = 0


class Codec(Protocol):
    """A frozen value that knows what it will make before it makes it."""

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """What a tensor of `shape` becomes, in the order of the file."""
        ...

    def row_bytes(self, shape: Shape) -> int:
        """Bytes of the smallest piece of the source that can be encoded alone."""
        ...

    def encode(self, rows: memoryview) -> Encoded:
        """Encode a whole number of pieces.

        The parts may be views of `rows`: they are used before its next change.
        """
        ...

    def decode(self, parts: Sequence[Buffer]) -> Buffer:
        """Give the values that pieces of the parts stand for, as bytes of `value_dtype`."""
        ...

    @property
    def value_dtype(self) -> str:
        """The dtype of decoded values."""
        ...

    def __hash__(self) -> int: ...
