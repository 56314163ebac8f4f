"""An importance matrix, whatever its format, as llama-quantize uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from store.errors import InputError
from store.text import printable

FLOAT: Final = 4
"""Bytes of a number."""


@dataclass(frozen=True, slots=True)
class ImportanceMatrix:
    """How much each column of each weight counts.

    Attributes:
        entries: by the name of the tensor, little-endian float32, one for each column, and of
            stacked experts one expert after the other.
        datasets: names of the texts that it was computed on.
        chunks: of those texts.
        is_gguf: whether names are GGUF's; else they are Hugging Face's.
    """

    entries: Mapping[str, bytes]
    datasets: tuple[str, ...]
    chunks: int
    is_gguf: bool = True

    def of(self, name: str, matrices: int, columns: int) -> tuple[bytes, ...] | None:
        """Return the importance for each of the matrices of a tensor, or None without any.

        Raises:
            InputError: the tensor has other columns, or another number of experts.
        """
        found = self.entries.get(name)
        if found is None:
            return None
        size = columns * FLOAT
        if len(found) != matrices * size:
            raise InputError(
                f"the importance matrix has {len(found) // FLOAT} numbers for "
                f"`{printable(name)}`, expected {matrices * columns}: it is of another model",
                code="E_IMATRIX_SHAPE",
                facts={"tensor": name},
            )
        return tuple(found[i * size : (i + 1) * size] for i in range(matrices))


def malformed(where: str, message: str, code: str = "E_IMATRIX") -> NoReturn:
    """Raise InputError for what llama-imatrix does not write."""
    raise InputError(f"{where}: {message}", code=code)
