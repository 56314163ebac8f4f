"""The command `ingot`: its subcommands, and the border where errors become exit codes."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, MappingProxyType
from typing import Annotated, Final, NoReturn

import typer

from cli.commands.options import STORE_VARIABLE, check_store_path
from cli.parser import Command, Group
from cli.views.console import out, report, speak_json
from store.errors import IngotError, StorageError, UsageError, from_os_error

_COMMANDS: Final = MappingProxyType(
    {
        "create": "cli.commands.create:create",
        "show": "cli.commands.show:show",
        "list": "cli.commands.models:list_models",
        "ls": "cli.commands.models:list_models",
        "df": "cli.commands.df:df",
        "cp": "cli.commands.models:copy_model",
        "rm": "cli.commands.models:remove_models",
        "export": "cli.commands.export:export",
        "diff": "cli.commands.diff:diff",
        "verify": "cli.commands.verify:verify",
        "gc": "cli.commands.gc:gc",
        "completion": "cli.commands.completion:completion",
        "help": "cli.commands.help:help_",
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
        words: what the user typed. Of the commands that they do not name only the first
            lines of the help are there: typer takes 0.2 ms to look at each parameter, and
            there are 120 in all.
    """
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(cls=Group)(_ingot)
    word = command_word(words)
    is_alone = word in _COMMANDS and word != "help"
    for name, target in _COMMANDS.items():
        if is_alone and name != word:
            continue
        module, _, function = target.partition(":")
        command = getattr(importlib.import_module(module), function)
        if name not in words:
            command = _summary(command)
        app.command(name, cls=Command, hidden=name in _ALIASES)(command)
    return app


def names_of_commands() -> list[str]:
    """Return the names of the commands, without their aliases."""
    return [name for name in _COMMANDS if name not in _ALIASES]


def _summary(command: Callable[..., object]) -> Callable[[], None]:
    """Return what has the help of a command, and none of its parameters."""

    def summary() -> None: ...

    summary.__doc__ = command.__doc__
    return summary


def command_word(words: list[str]) -> str | None:
    """Return the word where the command stands, behind the options that every command has."""
    rest = iter(words)
    for word in rest:
        if word == "--store":
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None


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
    version: Annotated[  # noqa: ARG001 - its callback has printed it
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="DIR", help="The store, as the option of each command."
        ),
    ] = None,
) -> None:
    """Import model checkpoints into a content-addressed store.

    Example: ingot create llama ./Llama-3.2-1B -q int4
    Example: ingot create qwen hf:Qwen/Qwen3-0.6B
    Example: ingot help create
    """
    if store is not None:
        check_store_path(store)
        # The option of each command reads it there, and its own value goes first.
        os.environ[STORE_VARIABLE] = store


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
