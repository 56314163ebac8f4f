"""The command `ingot`: its subcommands, and the border where errors become exit codes."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType, MappingProxyType
from typing import Annotated, Final, NoReturn

import typer

from cli.parser import Command, Group
from cli.views.console import out, report, speak_json
from store.errors import IngotError, StorageError, UsageError, from_os_error

_COMMANDS: Final = MappingProxyType(
    {
        "create": "cli.commands.create:create",
        "show": "cli.commands.show:show",
        "list": "cli.commands.models:list_models",
        "ls": "cli.commands.models:list_models",
        "cp": "cli.commands.models:copy_model",
        "rm": "cli.commands.models:remove_models",
        "export": "cli.commands.export:export",
        "verify": "cli.commands.verify:verify",
        "gc": "cli.commands.gc:gc",
    }
)
_ALIASES: Final = frozenset({"ls"})


class Signalled(BaseException):
    """A signal asked the process to end; what is unfinished is cleaned up on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run() -> None:
    """Run the command; every failure becomes one message, one hint and an exit code."""
    # What we create must at least be ours to read, whatever the umask.
    os.umask(os.umask(0o077) & 0o077)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _on_signal)
    try:
        code = _run(sys.argv[1:] or ["--help"])
    except Signalled as signalled:
        # Out here, because a signal may also come while an error is reported.
        _die(signalled.number)
    sys.exit(code)


def make_app(words: list[str]) -> typer.Typer:
    """Return the command line interface.

    Args:
        words: what the user typed. When the first is a command, only that one is loaded:
            typer takes 1 ms to look at each command's parameters, and `show` has 34 in all.
    """
    app = typer.Typer(
        help="Import model checkpoints into a content-addressed store.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(cls=Group)(_ingot)
    wanted = words[:1] if words[:1] and words[0] in _COMMANDS else list(_COMMANDS)
    for name in wanted:
        module, _, function = _COMMANDS[name].partition(":")
        command = getattr(importlib.import_module(module), function)
        app.command(name, cls=Command, hidden=name in _ALIASES)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("ingot")
        except PackageNotFoundError:
            number = "(not installed)"
        out([f"ingot {number}"])
        raise typer.Exit


def _ingot(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


def _run(words: list[str]) -> int:
    speak_json(wanted=False)  # until the parser has read the words
    try:
        result = make_app(words)(words, standalone_mode=False, prog_name="ingot")
    except BrokenPipeError:
        _die(signal.SIGPIPE)
    except SystemExit as leaving:
        # typer leaves so after a shell's completion, and after a broken pipe.
        if leaving.code != 1 or "_INGOT_COMPLETE" in os.environ:
            raise
        _die(signal.SIGPIPE)
    except Exception as error:
        if os.environ.get("INGOT_DEBUG") == "1":
            raise
        told = _told(error, words)
        report(told)
        return told.exit_code
    return result if isinstance(result, int) else 0


def _told(error: Exception, words: list[str]) -> IngotError:
    """Return any error as one that can be reported."""
    if isinstance(error, IngotError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    if isinstance(error, typer.TyperException):
        return _usage(error, words)
    if isinstance(error, MemoryError):
        return StorageError("out of memory", code="E_MEMORY")
    message = f"unexpected {type(error).__name__}: {error}"
    hint = "This is a bug in ingot: run again with INGOT_DEBUG=1 and report the traceback"
    return IngotError(message, code="E_BUG", hint=hint)


def _usage(error: typer.TyperException, words: list[str]) -> UsageError:
    context = getattr(error, "ctx", None)
    # What is wrong with an option may be found before there is a context.
    command = " ".join(["ingot", *(word for word in words[:1] if word in _COMMANDS)])
    if context is not None:
        command = context.command_path
    message = error.format_message().rstrip(".")
    return UsageError(message, code="E_USAGE", hint=f"`{command} --help` explains the command")


def _on_signal(number: int, _: FrameType | None) -> NoReturn:
    # Once: a second signal must not interrupt the cleaning up.
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Not SIG_IGN: of one that has come already, python would tell in a traceback.
        signal.signal(other, _too_late)
    raise Signalled(number)


def _too_late(_number: int, _: FrameType | None) -> None: ...


def _die(number: int) -> NoReturn:
    # By the signal itself, so that a shell knows that its loop was interrupted.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
