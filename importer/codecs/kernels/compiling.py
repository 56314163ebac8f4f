"""The process that compiles: numba and LLVM stay out of the one that imports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Self

from importer.codecs.kernels.kinds import Kind, in_json

if TYPE_CHECKING:
    import subprocess

_CHILD: Final = (
    "import sys; sys.path[:] = {path!r}; "
    "from importer.codecs.kernels.compiled.served import serve; serve()"
)


class CompilerError(Exception):
    """A function could not be compiled."""


class Compiler:
    """A child that compiles functions, one after the other.

    Example:
        >>> with Compiler() as compiler:
        ...     code = compiler.object_code("affine", "encode", kinds)
    """

    def __init__(self) -> None:
        """Start nothing yet: most processes find all code on disk."""
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, whatever it is doing."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def object_code(self, module: str, name: str, kinds: Sequence[Kind]) -> bytes:
        """Return a function of a module in `compiled`, as object code for these kinds.

        A signal's exception ends the waiting, and no callback of LLVM's loses it.

        Raises:
            CompilerError: numba is missing or broken, or the function needs it when it runs.
        """
        if self._child is None:
            self._child = _start()
        asking, answers = self._child.stdin, self._child.stdout
        assert asking is not None
        assert answers is not None
        try:
            asking.write(json.dumps([module, name, in_json(kinds)]).encode() + b"\n")
            asking.flush()
            said = json.loads(answers.readline())
        except (OSError, ValueError) as error:
            raise CompilerError("the process that compiles has ended") from error
        if "error" in said:
            raise CompilerError(said["error"])
        return answers.read(said["nbytes"])


def _start() -> subprocess.Popen[bytes]:
    import subprocess  # noqa: PLC0415 - most processes have nothing to compile

    # Isolated, as the working directory may be a source, with a `numba.py` in it; modules are
    # those of this process.
    command = [sys.executable, "-I", "-c", _CHILD.format(path=sys.path)]
    try:
        return subprocess.Popen(  # noqa: S603 - our own code
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A terminal sends Ctrl-C to all of a group: whoever asks ends this process.
            process_group=0,
        )
    except OSError as error:
        raise CompilerError(f"no process to compile in: {error.strerror}") from error


_current: Final[ContextVar[Compiler | None]] = ContextVar("current", default=None)


@contextmanager
def compiling() -> Iterator[None]:
    """Keep one child for all functions that are compiled in the context."""
    with Compiler() as compiler:
        token = _current.set(compiler)
        try:
            yield
        finally:
            _current.reset(token)


def object_code(module: str, name: str, kinds: Sequence[Kind]) -> bytes:
    """Return what `Compiler.object_code` does, of the context's child or of one of its own."""
    compiler = _current.get()
    if compiler is not None:
        return compiler.object_code(module, name, kinds)
    with Compiler() as own:
        return own.object_code(module, name, kinds)
