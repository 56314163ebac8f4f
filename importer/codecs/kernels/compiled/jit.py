"""How functions are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from importer.codecs.kernels.kinds import Array, Flag

__all__ = ["Array", "Flag", "jit"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Let numba compile a module-level function as a part of others.

    Kernels are written for LLVM's vectorizer, and to need nothing of numba when they run,
    which explains how they look:

    - Arrays are indexed by loop counters that start at 0. An index that may be negative
      costs a branch for each element, and the vector code with it.
    - Loops are short, run over one dimension, and know a bound of their length (`columns`).
    - Each integer operation is wrapped in its type: numba would compute in int64.
    - Flags choose what depends on the dtype, so that one function serves all of them.
    - Nothing may raise: no allocation, `reshape` or view of an array, nor a range with a step.
      The caller passes scratch memory, twice where it is used as two shapes or dtypes.
    """
    # No fast-math: a kernel computes the bits of the numpy module, which are MLX's. With
    # numpy's error model x / 0 is an infinity, and not a branch to an exception.
    compiler = cast("Any", numba.njit)
    # Only other kernels call it: the code for callers of other kinds took a fifth of the time.
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("_Function", compiler(function, error_model="numpy", **options))
