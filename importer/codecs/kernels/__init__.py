"""Compiled kernels, which do what the arithmetic modules say, and how they become ready.

A family's module brings memory and calls functions of `compiled`, where numba is: `native`
finds their code on disk, or has it compiled and kept.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType, ModuleType
from typing import Any, Final, NoReturn, Protocol, cast

import numpy as np
import numpy.typing as npt

from importer.codecs.kernels import function
from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.metrics import Sums
from importer.codecs.spec import Mode, QuantSpec

Words = npt.NDArray[np.uint32]
Companions = Sequence[npt.NDArray[Any]]
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
        self, source: Bits, dtype: str, spec: QuantSpec, words: Words, companions: Companions
    ) -> Flags:
        """Fill `words` and `companions` for the bits of a source of `dtype`."""
        ...

    def decode(
        self, words: Words, companions: Companions, dtype: str, spec: QuantSpec, values: Bits
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
_MODULES: Final[Mapping[Mode, str]] = MappingProxyType(
    {
        Mode.AFFINE: "affine",
        Mode.NVFP4: "fp4",
        Mode.MXFP4: "fp4",
        Mode.MXFP8: "mxfp8",
    }
)


def load(mode: Mode) -> Kernel:
    """Import the kernel of a mode, which finds its code when it is first called."""
    return cast("Kernel", _import(_MODULES[mode]))


def load_sums() -> Summing:
    """Import the kernel that measures deviations, as `load` does."""
    return cast("Summing", _import("metrics"))


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


def _import(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
