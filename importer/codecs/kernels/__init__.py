"""Compiled kernels, which compute what the reference modules specify, bit for bit.

The module of a family allocates memory and calls functions of `compiled`, which numba compiles.
`function` finds their code on disk, or has it compiled and keeps it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from importer.codecs.kernels import function
from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.metrics import Sums
from importer.codecs.spec import QuantSpec

Words = npt.NDArray[np.uint32]
Scales = Sequence[npt.NDArray[Any]]
Flags = npt.NDArray[np.uint8]
"""One for each group: 1 where a kernel cannot compute exactly, and what it wrote is void."""
Bounds = tuple[Floats, Floats]
"""For each group the values below and above which a value is clipped."""


class Kernel(Protocol):
    """The arithmetic of a family, compiled; modules implement it.

    Bits are of shape (groups, group size), words of shape (groups, words of a group).
    """

    def encode(
        self,
        source: Bits,
        dtype: str,
        spec: QuantSpec,
        words: Words,
        scale_parts: Scales,
        *weights: Floats,
    ) -> Flags:
        """Fill `words` and `scale_parts` for the bits of a source of `dtype`.

        Where scales are searched for, weights of the groups of a row may follow.
        """
        ...

    def decode(
        self, words: Words, scale_parts: Scales, dtype: str, spec: QuantSpec, values: Bits
    ) -> Flags:
        """Fill `values` with bits of `dtype`."""
        ...


class Summing(Protocol):
    """Sums over values and what they were encoded to, compiled; a module implements it."""

    def add(self, sums: Sums, source: Bits, decoded: Bits, dtype: str, bounds: Bounds) -> None:
        """Add some groups of bits of `dtype`, of shape (groups, group size)."""
        ...


_WORTH_COMPILING: Final = 256 << 20
"""Bytes below which two cores with numpy finish before one has compiled a kernel: 3 to 5 s."""


def announced(announce: Callable[[], None], nbytes: int) -> AbstractContextManager[None]:
    """Call `announce` before each function that is compiled.

    Args:
        nbytes: that the kernel will read or write: with few, compiling is not worthwhile.

    Raises:
        NotKeptError: inside the context, where a function would have to be compiled for few.
    """
    return function.announced(announce if nbytes >= _WORTH_COMPILING else _refuse)


def _refuse() -> NoReturn:
    raise function.NotKeptError
