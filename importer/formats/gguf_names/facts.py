"""What a GGUF file says about its model, as numbers and names of the architecture."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from store.errors import InputError
from store.text import printable

Fact = bool | int | float | str | Sequence[object]
ARCHITECTURE: Final = "general.architecture"
_MESSAGE: Final = 2000
"""Characters of a message."""
_FLOAT_DIGITS: Final = range(6, 10)


@dataclass(frozen=True, slots=True)
class Facts:
    """The metadata of a file, without vocabularies.

    Attributes:
        where: the file, for messages.
        values: by key.
    """

    where: str
    values: Mapping[str, Fact]

    @property
    def architecture(self) -> str:
        """GGUF's name of the architecture, or empty."""
        found = self.values.get(ARCHITECTURE)
        return found if isinstance(found, str) else ""

    def own(self, key: str) -> Fact | None:
        """Return a value of the architecture: of `llama.block_count` by `block_count`."""
        return self.values.get(f"{self.architecture}.{key}")

    def integer(self, key: str) -> int | None:
        """Return an integer of the architecture's; of one for each block the largest."""
        found = self.own(key)
        if isinstance(found, Sequence) and not isinstance(found, str):
            numbers = [number for number in found if isinstance(number, int)]
            return max(numbers, default=None)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def number(self, key: str) -> float | None:
        """Return a number of the architecture's."""
        found = self.own(key)
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        return found if is_number else None  # type: ignore[return-value] # said by is_number

    def text(self, key: str) -> str | None:
        """Return a string of the architecture's."""
        found = self.own(key)
        return found if isinstance(found, str) else None

    def count(self, key: str, block: int | None = None) -> int:
        """Return a positive integer that the layout of tensors needs, of a block if it varies.

        Raises:
            InputError: there is none.
        """
        found = self.own(key)
        if isinstance(found, Sequence) and not isinstance(found, str):
            of_block = found[block] if block is not None and block < len(found) else None
            found = of_block if isinstance(of_block, int) else None
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            self.bad(f"`{self.architecture}.{key}` is {found}, expected a positive number")
        return found

    def bad(self, what: str) -> NoReturn:
        """Raise InputError for metadata and tensors that contradict each other."""
        raise InputError(printable(f"{self.where}: {what}", _MESSAGE), code="E_GGUF_MODEL")


def shortest(number: float) -> float:
    """Return the F64 of the fewest digits that is the same as F32.

    Example:
        >>> shortest(9.999999974752427e-07)
        1e-06
    """
    try:
        bits = struct.pack("<f", number)
        for digits in _FLOAT_DIGITS:
            short = float(f"{number:.{digits}g}")
            if struct.pack("<f", short) == bits:
                return short
    except OverflowError:
        return number
    return number
