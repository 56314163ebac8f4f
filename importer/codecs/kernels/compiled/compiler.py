"""Compile a function to object code for the kinds of its arguments."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types

from importer.codecs.kernels import target
from importer.codecs.kernels.kinds import Kind


def object_code(module: str, name: str, kinds: Sequence[Kind]) -> bytes:
    """Compile a function of this package, as the C function `target.ENTRY`.

    An array becomes a pointer and its lengths; flags are compiled in.

    Raises:
        ImportError: the code needs something that only a process with numba has.
        Exception: whatever a broken numba raises.
    """
    function = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    entry = numba.cfunc(types.void(*_types(kinds)))(_entry(function, kinds))
    code = llvm.parse_assembly(entry.inspect_llvm())
    code.get_function(entry.native_name).name = target.ENTRY
    machine = target.target()
    _prune(code, machine)
    needed = undefined(code)
    if needed:
        raise ImportError(f"`{module}.{name}` needs {', '.join(needed)}")
    return bytes(machine.emit_object(code))


def undefined(code: llvm.ModuleRef) -> list[str]:
    """Return what a module uses and does not define, except LLVM's intrinsic functions."""
    values = [*code.functions, *code.global_variables]
    declared = {value.name for value in values if value.is_declaration}
    return sorted(name for name in declared if not name.startswith("llvm."))


def _prune(code: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Remove what the entry does not need: exceptions and reference counts.

    numba's code tests for both. LLVM sees that no test succeeds once nobody else can call it.
    """
    for value in [*code.functions, *code.global_variables]:
        if not value.is_declaration and value.name != target.ENTRY:
            value.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_ipsccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    tuning = llvm.create_pipeline_tuning_options()
    passes.run(code, llvm.create_pass_builder(machine, tuning))


def _types(kinds: Sequence[Kind]) -> Iterator[types.Type]:
    for kind in kinds:
        if isinstance(kind, tuple):
            dtype, dimensions = kind
            yield cast("Any", types).CPointer(numba.from_dtype(np.dtype(dtype)))
            yield from [types.int64] * dimensions
        elif isinstance(kind, type):
            yield types.int64 if kind is int else types.float32


def _entry(function: Callable[..., None], kinds: Sequence[Kind]) -> Callable[..., None]:
    """Make a function of pointers and lengths: numba takes no arrays from C.

    `def entry(a0, a0_0, a0_1, a2): function(carray(a0, (a0_0, a0_1,)), None, a2)`
    """
    parameters, arguments = [], []
    for i, kind in enumerate(kinds):
        name = f"a{i}"
        if isinstance(kind, tuple):
            lengths = [f"{name}_{axis}" for axis in range(kind[1])]
            parameters += [name, *lengths]
            arguments.append(f"carray({name}, ({', '.join(lengths)},))")
        elif isinstance(kind, type):
            parameters.append(name)
            arguments.append(name)
        else:
            arguments.append(repr(kind))
    text = f"def entry({', '.join(parameters)}): function({', '.join(arguments)})"
    names = {"function": function, "carray": cast("Any", numba).carray}
    exec(text, names)  # noqa: S102 - the text is ours
    return cast("Callable[..., None]", names["entry"])
