"""The border of the command `ingot`: signals, and errors that become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn

import typer

from cli.app import make_app, named
from cli.views.console import out, report, speak_json
from store.errors import IngotError, StorageError, UsageError, from_os_error

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signalled(BaseException):
    """A signal asked the process to end; what is unfinished is cleaned up on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run() -> None:
    """Run the command; every failure becomes one message, one hint and an exit code."""
    # What we create must at least be ours to read, whatever the umask.
    os.umask(os.umask(0o077) & 0o077)
    try:
        # Inside, because a signal may come as soon as its handler is set.
        _set_handler(_on_signal)
        code = _run(sys.argv[1:] or ["--help"])
        # While python ends, whatever a handler raises is a traceback on stderr.
        _set_handler(signal.SIG_DFL)
    except Signalled as signalled:
        # Out here, because a signal may also come while an error is reported.
        number = signalled.number
    else:
        sys.exit(code)
    # Out here the traceback is gone, and with it whatever was interrupted: it is cleaned up.
    _die(number)


def _run(words: list[str]) -> int:
    speak_json(wanted=False)  # until the parser has read the words
    try:
        if words[0] == "__complete":
            from cli.completion import lines_of

            out(lines_of(words[1:]))
            return 0
        result = make_app(words)(words, standalone_mode=False, prog_name="ingot")
    except BrokenPipeError:
        _die(signal.SIGPIPE)
    except SystemExit as leaving:
        # typer leaves so after a broken pipe.
        if leaving.code != 1:
            raise
        _die(signal.SIGPIPE)
    except Exception as error:
        if os.environ.get("INGOT_DEBUG") == "1":
            raise
        told = _told(error)
        if told.code == "E_USAGE" and told.hint is None:
            told.hint = f"`ingot help{named(words)}` explains the command"
        report(told)
        return told.exit_code
    return result if isinstance(result, int) else 0


def _told(error: Exception) -> IngotError:
    """Return any error as one that can be reported."""
    if isinstance(error, IngotError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    if isinstance(error, typer.TyperException):
        # The parser's own are in our words already, but for a call without a command.
        message = f"{error.format_message().rstrip('.').lower()}, expected `ingot COMMAND`"
        return UsageError(message, code="E_USAGE", hint="`ingot --help` lists the commands")
    if isinstance(error, MemoryError):
        return StorageError("out of memory", code="E_MEMORY")
    message = f"unexpected {type(error).__name__}: {error}"
    hint = "This is a bug in ingot: run again with INGOT_DEBUG=1 and report the traceback"
    return IngotError(message, code="E_BUG", hint=hint)


def _set_handler(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, handler)


def _on_signal(number: int, _: FrameType | None) -> NoReturn:
    # Once: a second signal must not interrupt the cleaning up.
    for other in _SIGNALS:
        # Not SIG_IGN: of one that has come already, python would tell in a traceback.
        signal.signal(other, _too_late)
    raise Signalled(number)


def _too_late(_number: int, _: FrameType | None) -> None: ...


def _die(number: int) -> NoReturn:
    # By the signal itself, so that a shell knows that its loop was interrupted.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
