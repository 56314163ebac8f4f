"""The one place that imports numba."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, cast

import numba
import numpy.typing as npt
from numba.core import event

Array = npt.NDArray[Any]
Flag = Literal[True] | None
"""No is None and not False: numba then compiles only the branch that is taken."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Compile a module-level function at its first call, and keep the code on disk.

    Kernels are written for LLVM's vectorizer, which explains how they look:

    - Arrays are indexed by loop counters that start at 0. An index that may be negative
      costs a branch for each element, and the vector code with it.
    - Loops are short, run over one dimension, and know a bound of their length (`columns`).
    - Each integer operation is wrapped in its type: numba would compute in int64.
    - What depends on the dtype is chosen by flags, so that one text serves all of them.
    """
    # No fast-math: a kernel gives the bits of the numpy module, which are MLX's. With numpy's
    # error model x / 0 is an infinity, and not a branch to an exception.
    try:
        compiled = numba.njit(function, cache=True, nogil=True, error_model="numpy")
    except RuntimeError:
        # No directory for the cache can be written: compile in each process.
        compiled = numba.njit(function, nogil=True, error_model="numpy")
    return cast("_Function", compiled)


def flag(is_set: bool) -> Flag:  # noqa: FBT001
    """Turn a boolean into a flag."""
    return True if is_set else None


@contextmanager
def announced(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` before the first function that is compiled, and not found on disk."""
    listener = _Announcer(announce)
    with event.install_listener("numba:compile", listener):
        yield


class _Announcer(event.Listener):
    def __init__(self, announce: Callable[[], None]) -> None:
        self._announce: Callable[[], None] | None = announce

    def on_start(self, _: object) -> None:
        announce, self._announce = self._announce, None
        if announce is not None:
            announce()

    def on_end(self, _: object) -> None:
        """Nothing to say."""
