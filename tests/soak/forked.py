"""The command in a fork of this process, which has loaded all of it: 40 ms a run, not 300.

Under `strace` a fork has one more virtue: the thousands of system calls of an interpreter
that starts are over when the first one is counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from tests.soak.harness import WATCHDOG_SECONDS, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOADED = (
    "cli.main",
    "cli.commands.create",
    "cli.commands.gc",
    "cli.commands.models",
    "cli.commands.show",
    "cli.commands.verify",
)
_LOADED += (
    "cli.views.progress",
    "cli.views.text",
    "importer.pipeline",
    "importer.engine.schedule",
    "store.gc",
)
_LOADED += ("store.verify", "safetensors.numpy", "sqlite3", "typer._click.decorators")
_LOADED += (
    "importer.verification.repair",
    "importer.verification.compare",
    "importer.engine.measure",
    "importer.models.quality",
)
_LOADED += ("importer.codecs.measure",)
_ALLOW_TRACERS = 0x59616D61  # PR_SET_PTRACER, for Yama's ptrace_scope 1
_ANYBODY = -1


def load() -> None:
    """Import what the commands import; call it once, before there are threads."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts them, and a fork has none of them
    for module in _LOADED:
        importlib.import_module(module)
    gc.freeze()  # else each fork's collector copies the pages of all that was loaded


@dataclass(frozen=True, slots=True)
class ForkedIngot:
    """The command, bound to one store.

    Attributes:
        cwd: where its processes are: outside of the source and the store.
    """

    store: Path
    cwd: Path

    def run(
        self,
        command: str,
        *arguments: str,
        strace: Sequence[str] = (),
        prepare: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Run one command to its end.

        Args:
            strace: its options, to run under it.
            prepare: done in the process first.
        """
        argv = (command, *arguments)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            gate, opener = os.pipe()
            started = time.perf_counter()
            pid = os.fork()
            if not pid:
                os.close(opener)
                words = ("ingot", *argv, "--store", str(self.store))
                self._become(words, _Beginning(gate, out, err, prepare))
            os.close(gate)
            try:
                tracer = _attach(pid, strace) if strace else None
            finally:
                os.close(opener)
            code, timed_out = _wait(pid)
            if tracer is not None:
                tracer.communicate(timeout=WATCHDOG_SECONDS)
            seconds = time.perf_counter() - started
            texts = [_content(file) for file in (out, err)]
        return Outcome(argv, code, *texts, seconds, timed_out, pid)

    def _become(self, words: Sequence[str], beginning: _Beginning) -> NoReturn:
        code: object = 1
        try:
            os.chdir(self.cwd)
            beginning.wait()
            sys.argv = list(words)
            from cli.main import run

            run()
        except SystemExit as leaving:
            code = leaving.code
        except BaseException:  # noqa: BLE001 - what else the interpreter would do
            traceback.print_exc()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


@cache
def why_no_strace() -> str | None:
    """Why no system call can be broken here, or None."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    if not hasattr(os, "fork"):
        return "there is no fork"
    probe = ("strace", "-f", "-q", "-e", "inject=flock:error=EIO", "true")
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"strace: {done.stderr.strip()}"


def same_names() -> None:
    """Name a writer's folder the same each time, for `prepare`."""
    from store.fs import FileSystem

    FileSystem.process = lambda _: 1  # type: ignore[method-assign]
    os.urandom = bytes


@dataclass(frozen=True, slots=True)
class _Beginning:
    gate: int
    out: IO[bytes]
    err: IO[bytes]
    prepare: Callable[[], None]

    def wait(self) -> None:
        """Take the new ends of stdin, stdout and stderr, and wait for the tracer."""
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(self.out.fileno(), 1)
        os.dup2(self.err.fileno(), 2)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_ALLOW_TRACERS, _ANYBODY)
        self.prepare()
        os.read(self.gate, 1)


def _attach(pid: int, options: Sequence[str]) -> subprocess.Popen[bytes]:
    tracer = subprocess.Popen(
        ["strace", "-f", "-q", *options, "-p", str(pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    status = Path(f"/proc/{pid}/status")
    while "TracerPid:\t0\n" in status.read_text():
        if tracer.poll() is not None:
            _, why = tracer.communicate()
            raise RuntimeError(f"strace: {why.decode(errors='replace')}")
        time.sleep(0.0005)
    return tracer


def _wait(pid: int) -> tuple[int, bool]:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    timed_out = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code, timed_out
        if not timed_out and time.monotonic() > deadline:
            timed_out = True
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
