"""Native code for this machine: its identity, and how it is loaded. It imports llvmlite."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

ENTRY: Final = "kernel"
"""The only symbol that object code exports."""

Native = Callable[..., None]

_numbers: Final = itertools.count()
"""Parts of the names of libraries, which LLVM never allows twice."""
_libraries: Final[list[llvm.ResourceTracker]] = []
"""The owners of all loaded code."""


@functools.cache
def identity() -> str:
    """Return everything that code depends on besides its source and the compiler."""
    return f"{llvmlite.__version__} {llvm.get_default_triple()} {_cpu()} {_features()}"


def target() -> llvm.TargetMachine:
    """Return the target for this machine, with the settings of a compiler in memory."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Addresses may be far apart in memory, and are known when code is loaded.
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=_cpu(),
        features=_features(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


def load(code: bytes, types: Sequence[type[Any]]) -> Native:
    """Return the function in object code, which takes arguments of `types`.

    Calls release the lock of the interpreter.
    """
    linked = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    library = linked.export_symbol(ENTRY).link(_linker(), f"{ENTRY}{next(_numbers)}")
    _libraries.append(library)
    return ctypes.CFUNCTYPE(None, *types)(library[ENTRY])


@functools.cache
def _linker() -> llvm.LLJIT:
    """Return what links object code in memory.

    LLVM's older one, MCJIT, has to be given a module that it could compile: 3 to 4 MiB more.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(suppress_errors=True)


@functools.cache
def _cpu() -> str:
    return str(llvm.get_host_cpu_name())


@functools.cache
def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())
