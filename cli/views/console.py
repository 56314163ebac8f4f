"""Where output goes: results to stdout, all else to stderr, and one shape for every error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TextIO

from store.errors import IngotError, StorageError
from store.text import printable

_RED: Final = "\x1b[31m"
_CYAN: Final = "\x1b[36m"
_RESET: Final = "\x1b[0m"
_LONGEST_MESSAGE: Final = 4000
_IN_ASCII: Final = str.maketrans("█▉▊▋▌▍▎▏▁▂▃▄▅▆▇░│├└─…", "#####   _.:-=+*.||`-~")
"""Of bars, histograms, trees and what is cut."""


class Picture(Protocol):
    """Something on the terminal's last line, which steps aside for lines that stay."""

    def hidden(self) -> contextlib.AbstractContextManager[None]:
        """Take it away while the block goes on."""


class _Call:
    """What the parser found out about the one call that this process serves."""

    wants_json = False
    is_quiet = False
    picture: Picture | None = None


_call: Final = _Call()


def speak_json(*, wanted: bool) -> None:
    """Decide whether errors are JSON, and all else that is said on stderr is left out."""
    _call.wants_json = wanted


def wants_json() -> bool:
    """Whether the call asked for machine-readable output."""
    return _call.wants_json


def be_quiet(*, wanted: bool) -> None:
    """Decide whether all but warnings and errors is left out of what is said on stderr."""
    _call.is_quiet = wanted


def is_quiet() -> bool:
    """Whether only warnings and errors are wanted on stderr."""
    return _call.is_quiet or _call.wants_json


def out(lines: Iterable[str]) -> None:
    """Print a result on stdout, now: a result that nobody could read is a failure.

    Raises:
        StorageError: stdout is closed, or what is behind it failed.
        BrokenPipeError: the reader has gone.
    """
    if sys.stdout is None:
        raise StorageError("stdout is closed", code="E_STDOUT")
    # An error in the making of a line leaves stdout empty.
    text = "".join(_encodable(line, sys.stdout) + "\n" for line in list(lines))
    try:
        with _hidden():
            _write_all(sys.stdout, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(f"writing to stdout: {error.strerror}", code="E_STDOUT") from error


def out_json(command: str, document: Mapping[str, object]) -> None:
    """Print the one document of a command, ASCII only, so that no terminal is driven by it."""
    out([json.dumps({"schema": f"ingot.{command}/1", **document}, indent=2)])


def talk(line: str) -> None:
    """Print a line on stderr, unless the call wants JSON, or quiet."""
    if sys.stderr is not None and not is_quiet():
        _to_stderr(line)


def warn(message: str) -> None:
    """Print a warning on stderr."""
    if sys.stderr is not None and not wants_json():
        from cli.views.table import fitted

        lines = [f"warning: {printable(message, _LONGEST_MESSAGE)}"]
        _to_stderr("\n".join(fitted(lines, sys.stderr)))


def report(error: IngotError) -> None:
    """Print an error on stderr: what is wrong, and what helps."""
    from cli.hints import hint_for

    if sys.stderr is None:
        return
    message = printable(str(error), _LONGEST_MESSAGE)
    hint = hint_for(error)
    if wants_json():
        document = {
            "schema": "ingot.error/1",
            "code": error.code,
            "exit_code": error.exit_code,
            "message": message,
            "hint": hint,
        }
        _to_stderr(json.dumps(document))
        return
    red, cyan, reset = (_RED, _CYAN, _RESET) if has_colour(sys.stderr) else ("", "", "")
    lines = [f"{red}error{reset}: {message}"]
    if hint:
        lines.append(f"{cyan}hint{reset}: {printable(hint, _LONGEST_MESSAGE)}")
    for line in lines:
        _to_stderr(line)


def _write_all(stream: TextIO, text: str) -> None:
    buffer = getattr(stream, "buffer", None)
    if not isinstance(buffer, io.RawIOBase):
        stream.write(text)
        stream.flush()
        return
    # PYTHONUNBUFFERED: there is no buffer that would write again what a full disk or a pipe
    # did not take at once.
    rest = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    while rest:
        rest = rest[buffer.write(rest) or 0 :]


def has_colour(stream: TextIO) -> bool:
    """Whether colours may go to a stream: a terminal, and nothing in the way."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def tell_event(event: str, facts: Mapping[str, object]) -> None:
    """Print an event on stderr as one line of JSON, whatever else is said there."""
    if sys.stderr is not None:
        _to_stderr(json.dumps({"schema": "ingot.event/1", "event": event, **facts}))


@contextlib.contextmanager
def beside(picture: Picture) -> Iterator[None]:
    """Show a picture on the last line of the terminal; it is gone when the block ends."""
    _call.picture = picture
    try:
        yield
    finally:
        with picture.hidden():
            _call.picture = None


def _to_stderr(line: str) -> None:
    # What nobody hears changes neither what is done nor the exit code.
    with _hidden(), contextlib.suppress(OSError):
        sys.stderr.write(_encodable(line, sys.stderr) + "\n")
        sys.stderr.flush()


def _hidden() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if _call.picture is None else _call.picture.hidden()


def _encodable(line: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        # What pictures are made of has a counterpart; of the rest a terminal of another
        # encoding gets escapes instead of a traceback.
        line = line.translate(_IN_ASCII)
    return line.encode(encoding, "backslashreplace").decode(encoding)
