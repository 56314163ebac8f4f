"""Ctrl-C and its kin: the command dies of the signal, and leaves nothing unfinished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from store.fs import FileSystem
from tests.check_store import check_store, manifest_digest
from tests.cli.runner import WATCHDOG_SECONDS, argv, environment, run
from tests.importer.builders import framed, write

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
each_signal = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)


def large(directory, nbytes):
    """A model of one sparse tensor, whose import takes a while."""
    header = {"w": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}}
    write(directory, {"model.safetensors": framed(header)})
    os.truncate(directory / "model.safetensors", len(framed(header)) + nbytes)
    return directory


def start(*words, store, **options):
    return subprocess.Popen(
        argv(*words),
        env=environment(store),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for(what):
    """Poll until something is there."""
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def is_writing(store):
    return any(path.stat().st_size > 1000 for path in store.glob("tmp/*/*.partial"))


def ended(process):
    """Wait for the end; give stdout and stderr."""
    stdout, stderr = process.communicate(timeout=WATCHDOG_SECONDS)
    assert "Traceback" not in stderr, stderr
    assert "Exception ignored" not in stderr, stderr
    return stdout, stderr


@each_signal
def test_a_signal_during_an_import_leaves_nothing_unfinished(filled, tmp_path, number):
    source = large(tmp_path / "m", 2 << 30)
    before = manifest_digest(filled, "kept")
    process = start("create", "kept", source, store=filled)
    wait_for(lambda: is_writing(filled))

    process.send_signal(number)
    stdout, _ = ended(process)

    assert process.returncode == -number
    assert stdout == ""
    assert list((filled / "tmp").iterdir()) == []
    assert manifest_digest(filled, "kept") == before
    assert check_store(filled) == []


@pytest.mark.parametrize("seconds", [0.5, 1.5])
def test_a_signal_while_kernels_are_compiled_is_not_lost(filled, tmp_path, seconds):
    # Python may handle it inside a callback of the compiler's, where exceptions are lost.
    pytest.importorskip("numba")
    shape = [1 << 17, 1 << 10]
    header = {"a.weight": {"dtype": "BF16", "shape": shape, "data_offsets": [0, 1 << 28]}}
    source = write(tmp_path / "m", {"model.safetensors": framed(header)})
    os.truncate(source / "model.safetensors", len(framed(header)) + (1 << 28))
    variables = environment(filled) | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    process = subprocess.Popen(
        argv("create", "kept", source, "--quantize", "int4"),
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while "compiling" not in (line := process.stderr.readline()):
        assert line, "it ended without compiling"
    before = manifest_digest(filled, "kept")
    time.sleep(seconds)

    process.send_signal(signal.SIGTERM)
    stdout, _ = ended(process)

    assert process.returncode == -signal.SIGTERM
    assert stdout == ""
    assert manifest_digest(filled, "kept") == before
    assert list((filled / "tmp").iterdir()) == []


def test_more_signals_do_not_interrupt_the_cleaning_up(filled, tmp_path):
    process = start("create", "kept", large(tmp_path / "m", 2 << 30), store=filled)
    wait_for(lambda: is_writing(filled))

    for number in (*SIGNALS, *SIGNALS, signal.SIGINT):
        process.send_signal(number)
    ended(process)

    assert -process.returncode in SIGNALS
    assert list((filled / "tmp").iterdir()) == []


def test_a_signal_that_was_ignored_stays_ignored(store, tmp_path):
    source = large(tmp_path / "m", 64 << 20)

    def nohup():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start("create", "m", source, store=store, preexec_fn=nohup)
    wait_for(lambda: is_writing(store) or process.poll() is not None)
    process.send_signal(signal.SIGHUP)
    ended(process)

    assert process.returncode == 0
    assert manifest_digest(store, "m") is not None


@each_signal
def test_a_signal_while_gc_waits_ends_it(filled, number):
    fs = FileSystem()
    held = fs.try_lock(filled / "locks" / "store", exclusive=False)
    try:
        process = start("gc", "--yes", "--wait", "600", store=filled)
        wait_for(lambda: list((filled / "tmp").iterdir()))
        time.sleep(0.2)
        process.send_signal(number)
        ended(process)
    finally:
        fs.close(held)

    assert process.returncode == -number
    run("gc", "--yes", store=filled).succeeded()
    assert check_store(filled, after_gc=True) == []


def test_a_kill_leaves_what_gc_names_and_frees(filled, tmp_path):
    process = start("create", "big", large(tmp_path / "m", 2 << 30), store=filled)
    wait_for(lambda: is_writing(filled))

    process.kill()
    process.communicate()

    told = run("gc", "--dry-run", store=filled).succeeded().stdout
    assert "unfinished import of big:latest" in told
    run("gc", "--yes", store=filled).succeeded()
    assert check_store(filled, after_gc=True) == []


INTERRUPTED = """
import builtins, os, signal, sys
real = builtins.__import__
def hook(name, *arguments, **named):
    if name == sys.argv[1]:
        builtins.__import__ = real
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *arguments, **named)
builtins.__import__ = hook
from cli import main
sys.argv = ["ingot", *sys.argv[1:][1:]]
INTERRUPT = None
main()
"""


@pytest.mark.parametrize("module", ["typer", "store.errors", "importer.pipeline", "numpy"])
def test_ctrl_c_during_the_imports_shows_no_traceback(store, tmp_path, module):
    source = large(tmp_path / "m", 1000)
    script = INTERRUPTED.replace("sys.argv[1]:\n", f"{module!r}:\n", 1)
    command = [sys.executable, "-c", script, "-", "create", "m", str(source)]

    done = subprocess.run(
        command, env=environment(store), capture_output=True, check=False, text=True
    )

    assert done.returncode == -signal.SIGINT, done.stderr
    has_begun = module in {"importer.pipeline", "numpy"}
    assert done.stderr == "interrupted while reading; nothing was changed\n" * has_begun
    assert not store.exists()
