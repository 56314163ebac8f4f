"""The contract of a codec, and its laws.

1. `encode` gives what `parts` promised.
2. Rows are independent: however they are split, the parts joined are the same bytes.

The second law makes chunks, threads and bounded memory possible, and digests repeatable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from store.fs import Buffer
from store.tensorfile import data_bytes

Shape = tuple[int, ...]


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


class Codec(Protocol):
    """A frozen value that knows what it will make before it makes it."""

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """What a tensor of `shape` becomes, in the order of the file."""
        ...

    def row_bytes(self, shape: Shape) -> int:
        """Bytes of the smallest piece of the source that can be encoded alone."""
        ...

    def encode(self, rows: memoryview) -> tuple[Buffer, ...]:
        """Encode whole rows, giving one piece of each part.

        The pieces may be views of `rows`: they are used before its next change.
        """
        ...
