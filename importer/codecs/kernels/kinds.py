"""What can be passed to a compiled function, and the kinds on which its code depends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Flag = Literal[True] | None
"""False is spelled None: numba then compiles only the branch that is taken."""

Kind = tuple[str, int] | Flag | type[int] | type[np.float32]
"""The dtype and number of dimensions of an array, a flag itself, or the type of a number."""

_NUMBERS: Final[dict[str, Kind]] = {"int": int, "float": np.float32}

start_of: Final = cast("Callable[[Array], object]", (ctypes.c_char * 0).from_buffer)
"""Takes less than half the time of `array.ctypes`; refuses read-only and strided arrays."""


class Memory:
    """An array that is passed often: its arguments are prepared once."""

    __slots__ = ("kind", "passed")

    def __init__(self, array: Array) -> None:
        """Prepare the arguments of an array that is writable and contiguous.

        Raises:
            TypeError: it is not.
        """
        self.kind: Kind = (array.dtype.char, array.ndim)
        # The pointer keeps the array alive.
        self.passed = (start_of(array), *array.shape)


Argument = Array | Memory | Flag | int | np.float32


def flag(is_set: bool) -> Flag:  # noqa: FBT001
    """Turn a boolean into a flag."""
    return True if is_set else None


def in_json(kinds: Sequence[Kind]) -> list[Any]:
    """Return kinds as JSON has them: an array is a list, a number the name of its type.

    Example:
        >>> in_json([("B", 2), int, True, None])
        [['B', 2], 'int', True, None]
    """
    names = {kind: name for name, kind in _NUMBERS.items()}
    return [
        list(kind)
        if isinstance(kind, tuple)
        else names[kind]
        if isinstance(kind, type)
        else kind
        for kind in kinds
    ]


def of_json(document: Sequence[Any]) -> tuple[Kind, ...]:
    """Return the kinds that `in_json` was given."""
    return tuple(_of_json(kind) for kind in document)


def _of_json(kind: Any) -> Kind:  # noqa: ANN401 - as `json` gives it
    if isinstance(kind, list):
        dtype, dimensions = kind
        return dtype, dimensions
    return _NUMBERS[kind] if isinstance(kind, str) else kind
