"""The kernels that workers compute with: prepared once, before the workers start."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from importer.codecs.base import KernelSpec

_WORTH_LOADING: Final = 16 << 20
"""Bytes below which two cores with numpy finish before kernels are loaded: that takes 40 ms."""


@dataclass(frozen=True, slots=True)
class KernelRuntime:
    """Kernels by their specs.

    Attributes:
        ready: kernels that agreed with numpy on this machine when they were prepared.
        problem: why a kernel is missing that should be there, or None. Quantizing is then some
            twenty times slower, with the same result.
    """

    ready: Mapping[KernelSpec, Any] = field(default_factory=lambda: MappingProxyType({}))
    problem: str | None = None

    def kernel(self, spec: KernelSpec) -> Any | None:  # noqa: ANN401 - as the codec knows it
        """Return the kernel for `spec`, or None."""
        return self.ready.get(spec)


NUMPY: Final = KernelRuntime()
"""A runtime without kernels: numpy does everything."""


def prepare(work: Mapping[KernelSpec, int], announce: Callable[[], None]) -> KernelRuntime:
    """Load kernels, and compile those that are not on disk and have much to do.

    Args:
        work: for each kernel the bytes that it will read, or write if these are more.
        announce: called at most once, before kernels are compiled, which takes seconds. They
            are kept on disk, so that each machine compiles them once.

    Returns:
        The kernels that agree with numpy on this machine. Without the others numpy works.
    """
    work = {spec: nbytes * getattr(spec, "effort", 1) for spec, nbytes in work.items()}
    if sum(work.values()) < _WORTH_LOADING:
        return NUMPY
    from importer.codecs import kernels  # noqa: PLC0415 - it imports numpy
    from importer.codecs.kernels import compiling  # noqa: PLC0415
    from importer.codecs.kernels.function import NotKeptError  # noqa: PLC0415

    once = functools.cache(announce)
    ready: dict[KernelSpec, Any] = {}
    problem = None
    try:
        with compiling.compiling():
            for spec, nbytes in work.items():
                kernel = spec.load()
                with kernels.announced(once, nbytes), contextlib.suppress(NotKeptError):
                    spec.check(kernel)
                    ready[spec] = kernel
    except compiling.CompilerError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with numba, numpy is right
        what = str(error).partition("\n")[0]
        problem = f"{type(error).__name__}: {what}"
    return KernelRuntime(MappingProxyType(ready), problem)
