"""What workers compute with: the kernels that were made ready, once, before they began."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from importer.codecs.base import KernelSpec

_WORTH_LOADING: Final = 16 << 20
"""Bytes below which numpy alone on two cores is done before kernels are loaded, in 40 ms."""


@dataclass(frozen=True, slots=True)
class KernelRuntime:
    """Kernels by what they are for.

    Attributes:
        ready: each agreed with numpy on this machine a moment ago.
        problem: why one is missing that should be there: quantizing is then some twenty times
            slower, and as right.
    """

    ready: Mapping[KernelSpec, Any] = field(default_factory=lambda: MappingProxyType({}))
    problem: str | None = None

    def kernel(self, spec: KernelSpec) -> Any | None:  # noqa: ANN401 - as the codec knows it
        """Return the kernel for `spec`, or None."""
        return self.ready.get(spec)


NUMPY: Final = KernelRuntime()
"""No kernels: numpy does everything."""


def prepare(work: Mapping[KernelSpec, int], announce: Callable[[], None]) -> KernelRuntime:
    """Load kernels, or compile those that have much to do and are not kept on this machine.

    Args:
        work: for each kernel the bytes that it will read, or write if these are more.
        announce: called at most once, before kernels are compiled, which takes seconds. They
            are kept on disk, so that this happens once on a machine.
    """
    if sum(work.values()) < _WORTH_LOADING:
        return NUMPY
    from importer.codecs import kernels  # noqa: PLC0415 - it imports numpy
    from importer.codecs.kernels.function import NotKeptError  # noqa: PLC0415

    once = functools.cache(announce)
    ready: dict[KernelSpec, Any] = {}
    problem = None
    try:
        for spec, nbytes in work.items():
            kernel = spec.load()
            with kernels.announced(once, nbytes), contextlib.suppress(NotKeptError):
                spec.check(kernel)
                ready[spec] = kernel
    except Exception as error:  # noqa: BLE001 - whatever is wrong with numba, numpy is right
        what = str(error).partition("\n")[0]
        problem = f"{type(error).__name__}: {what}"
    return KernelRuntime(MappingProxyType(ready), problem)
