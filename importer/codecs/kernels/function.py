"""Functions of `compiled`, as native code for the arguments that they are called with."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from importer.codecs.kernels import compiling, object_cache
from importer.codecs.kernels.kinds import Argument, Kind, Memory, start_of

if TYPE_CHECKING:
    from importer.codecs.kernels.target import Native


class NotKeptError(Exception):
    """Code is not on disk, and there is too little work to compile it."""


_SCALARS: Final = MappingProxyType({int: ctypes.c_int64, np.float32: ctypes.c_float})
_announce: ContextVar[Callable[[], None] | None] = ContextVar("announce", default=None)


class Function:
    """A function of a module in `compiled`, which a process with a filled cache never imports.

    Code is loaded, or compiled and kept, at the first call with arguments of some kinds.
    """

    def __init__(self, module: str, name: str) -> None:
        """Name a function of a module in `compiled`; nothing is loaded yet."""
        self._module, self._name = module, name
        self._natives: dict[tuple[Kind, ...], Native] = {}

    def __call__(self, *arguments: Argument) -> None:
        """Call the function without holding the lock of the interpreter.

        Args:
            arguments: flags, numbers, and arrays that are writable and contiguous.

        Raises:
            TypeError: an array is not writable.
            Exception: whatever a missing or broken compiler raises.
        """
        kinds: list[Kind] = []
        passed: list[object] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                shape = argument.shape
                kinds.append((argument.dtype.char, len(shape)))
                passed += (start_of(argument), *shape)
            elif isinstance(argument, Memory):
                kinds.append(argument.kind)
                passed += argument.passed
            elif argument is None or argument is True:
                kinds.append(argument)
            else:
                kinds.append(type(argument))
                passed.append(argument)
        key = tuple(kinds)
        native = self._natives.get(key)
        if native is None:
            native = self._natives[key] = self._load(key)
        native(*passed)

    def _load(self, kinds: tuple[Kind, ...]) -> Native:
        from importer.codecs.kernels import target  # noqa: PLC0415 - it imports llvmlite

        types: list[type[Any]] = []
        for kind in kinds:
            if isinstance(kind, tuple):
                types += [ctypes.c_void_p, *[ctypes.c_int64] * kind[1]]
            elif isinstance(kind, type):
                types.append(_SCALARS[kind])
        kept = object_cache.Place(
            f"{self._module}.{self._name}", f"{kinds} {target.identity()}"
        )
        code = kept.read()
        if code is None:
            code = self._compile(kinds)
            kept.write(code)
        return target.load(code, types)

    def _compile(self, kinds: tuple[Kind, ...]) -> bytes:
        announce = _announce.get()
        if announce is not None:
            announce()
        return compiling.object_code(self._module, self._name, kinds)


@contextmanager
def announced(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` before each function that is compiled because it is not on disk.

    An exception that it raises keeps the function from being compiled.
    """
    token = _announce.set(announce)
    try:
        yield
    finally:
        _announce.reset(token)
