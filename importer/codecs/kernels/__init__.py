"""Compiled kernels, which do what the reference modules say, to the bit.

A family's module brings memory and calls functions of `compiled`, where numba is: `function`
finds their code on disk, or has it compiled and kept.
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
"""One for each group: those with 1 are outside of what a kernel can do exactly, and what it
wrote for them is void."""
Bounds = tuple[Floats, Floats]
"""Of each group, below and above which a value is clipped."""


class Kernel(Protocol):
    """A family's rules, compiled; a module is one.

    Bits are of shape (groups, group size), words of shape (groups, words of a group).
    """

    def encode(
        self, source: Bits, dtype: str, spec: QuantSpec, words: Words, scale_parts: Scales
    ) -> Flags:
        """Fill `words` and `scale_parts` for the bits of a source of `dtype`."""
        ...

    def decode(
        self, words: Words, scale_parts: Scales, dtype: str, spec: QuantSpec, values: Bits
    ) -> Flags:
        """Fill `values` with bits of `dtype`."""
        ...


class Summing(Protocol):
    """Sums over values and what they became, compiled; a module is one."""

    def add(self, sums: Sums, source: Bits, decoded: Bits, dtype: str, bounds: Bounds) -> None:
        """Add some groups of bits of `dtype`, of shape (groups, group size)."""
        ...


_WORTH_COMPILING: Final = 256 << 20
"""Below, two cores are done with numpy before one has compiled: 3 to 5 s for each kernel."""


def announced(announce: Callable[[], None], nbytes: int) -> AbstractContextManager[None]:
    """Call `announce` before each function that is compiled.

    Args:
        nbytes: that it will read or write; a kernel that is not kept has to be worth it.

    Raises:
        NotKeptError: inside, where it is not.
    """
    return function.announced(announce if nbytes >= _WORTH_COMPILING else _refuse)


def _refuse() -> NoReturn:
    raise function.NotKeptError
