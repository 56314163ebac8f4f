"""Compiled functions are plain native code: they need nothing of the compiler, nor check."""

from __future__ import annotations

import json
import signal
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest

from importer.codecs.kernels import (
    affine,
    compiling,
    fp4,
    metrics,
    mxfp8,
    object_cache,
    target,
)
from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import in_json, of_json
from importer.codecs.kernels.scratch import block

FUNCTIONS = (
    affine._encode,
    affine._decode,
    fp4._encode,
    fp4._decode,
    mxfp8._encode,
    mxfp8._decode,
    metrics._add,
    metrics._count,
)
C_LIBRARY = {"memset", "memcpy", "memmove", "rintf"}


def symbols(code):
    """Names in an ELF object, and whether each is defined there."""
    file = target.llvm.ObjectFileRef.from_data(code)
    sections = {part.name(): part.data() for part in file.sections()}
    names, found = sections[b".strtab"], {}
    for name, info, _, index, _, _ in struct.iter_unpack("<IBBHQQ", sections[b".symtab"]):
        if info & 15 <= 2:  # no section, no file
            found[names[name : names.index(b"\0", name)].decode()] = index != 0
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="objects are ELF")
@pytest.mark.usefixtures("kernels")
def test_object_code_needs_nothing_but_the_c_library():
    kept = sorted(object_cache.directory().glob("*.o"))
    assert len(kept) > 20

    for path in kept:
        found = symbols(path.read_bytes()[object_cache._DIGEST_BYTES :].partition(b"\n")[2])
        assert found.pop(target.ENTRY)
        assert {name for name in found if name and not found[name]} <= C_LIBRARY


def faulty(monkeypatch, function):
    """Put a function where those that are compiled are."""
    numba = pytest.importorskip("numba")
    module = ModuleType("faulty")
    module.function = numba.njit(function)
    monkeypatch.setitem(sys.modules, "importer.codecs.kernels.compiled.faulty", module)


def allocate(values):
    values[:] = np.empty(values[0], np.int64)[0]


def divide(values):
    values[0] = values[0] // values[1]


@pytest.mark.parametrize(("function", "needed"), [(allocate, "NRT_"), (divide, "PyErr_")])
def test_a_function_that_needs_numba_when_it_runs_is_refused(function, needed, monkeypatch):
    faulty(monkeypatch, function)
    from importer.codecs.kernels.compiled import compiler

    with pytest.raises(ImportError, match=f"`faulty.function` needs .*{needed}"):
        compiler.object_code("faulty", "function", [("q", 1)])


def test_what_cannot_be_passed_is_refused():
    function = Function("affine", "encode")
    readonly = np.arange(4)
    readonly.flags.writeable = False

    for array in (np.arange(4)[::2], np.ones((2, 3)).T, readonly):
        with pytest.raises((TypeError, ValueError, BufferError)):
            function(array)


def test_each_thread_works_in_memory_of_its_own():
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(block, 64).result()

    assert block(64) is block(64)
    assert block(64) is not theirs


@pytest.mark.usefixtures("kernels")
def test_every_function_was_found():
    assert all(function._natives for function in FUNCTIONS)


class SignalledError(Exception):
    pass


def test_a_signal_ends_the_compiling():
    def on_alarm(*_):
        raise SignalledError

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        with compiling.Compiler() as compiler:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(SignalledError):
                compiler.object_code("affine", "encode", ())
            child = compiler._child
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert child.returncode == -signal.SIGKILL


def test_what_cannot_be_compiled_is_said():
    pytest.importorskip("numba")
    with compiling.Compiler() as compiler:
        for module, name, said in (
            ("affine", "encoed", "AttributeError: .*encoed"),
            ("afine", "encode", "ModuleNotFoundError: .*afine"),
        ):
            with pytest.raises(compiling.CompilerError, match=said):
                compiler.object_code(module, name, ())
        compiler._child.kill()
        compiler._child.wait()

        with pytest.raises(compiling.CompilerError, match="has ended"):
            compiler.object_code("affine", "encode", ())


def test_without_a_second_process_numpy_works(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with (
        compiling.Compiler() as compiler,
        pytest.raises(compiling.CompilerError, match="No such"),
    ):
        compiler.object_code("affine", "encode", ())


def test_the_working_directory_is_not_where_numba_is_looked_for(tmp_path, monkeypatch):
    (tmp_path / "numba.py").write_text("raise SystemExit")
    (tmp_path / "sys.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)

    with (
        compiling.Compiler() as compiler,
        pytest.raises(compiling.CompilerError, match=r"AttributeError|No module named 'numba'"),
    ):
        compiler.object_code("affine", "nothing", ())


def test_kinds_come_through_json():
    kinds = (("B", 2), int, np.float32, True, None)

    assert of_json(json.loads(json.dumps(in_json(kinds)))) == kinds
