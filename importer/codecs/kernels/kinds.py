"""What may be passed to a compiled function, and the kinds by which its code differs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Flag = Literal[True] | None
"""No is None and not False: numba then compiles only the branch that is taken."""

Kind = tuple[str, int] | Flag | type[int] | type[np.float32]
"""What code depends on: the dtype and dimensions of an array, a flag itself, or a type."""

start_of: Final = cast("Callable[[Array], object]", (ctypes.c_char * 0).from_buffer)
"""Less than half of the time of `array.ctypes`; refuses what is not contiguous and writable."""


class Memory:
    """An array that is passed often: what is passed for it is found out once."""

    __slots__ = ("kind", "passed")

    def __init__(self, array: Array) -> None:
        """Take an array that is writable and contiguous.

        Raises:
            TypeError: it is not.
        """
        self.kind: Kind = (array.dtype.char, array.ndim)
        # What is passed owns the array.
        self.passed = (start_of(array), *array.shape)


Argument = Array | Memory | Flag | int | np.float32


def flag(is_set: bool) -> Flag:  # noqa: FBT001
    """Turn a boolean into a flag."""
    return True if is_set else None
