"""The command `ingot`: its subcommands, and the border where errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import typer

from cli import create, gc, models, show, verify
from cli.console import report
from store.errors import IngotError, StorageError, UsageError, from_os_error

app = typer.Typer(
    name="ingot",
    help="Import model checkpoints into a content-addressed store.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("create")(create.create)
app.command("show")(show.show)
app.command("list")(models.list_models)
app.command("ls", hidden=True)(models.list_models)
app.command("cp")(models.copy_model)
app.command("rm")(models.remove_models)
app.command("verify")(verify.verify)
app.command("gc")(gc.gc)


class Signalled(BaseException):
    """A signal asked the process to end; what is unfinished is cleaned up on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> None:
    """Run the command; every failure becomes one message, one hint and an exit code."""
    # What we create must at least be ours to read, whatever the umask.
    os.umask(os.umask(0o077) & 0o077)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _on_signal)
    sys.exit(_run())


def _run() -> int:
    try:
        result = app(standalone_mode=False, prog_name="ingot")
    except BrokenPipeError:
        _die(signal.SIGPIPE)
    except Signalled as signalled:
        _die(signalled.number)
    except Exception as error:
        if os.environ.get("INGOT_DEBUG") == "1":
            raise
        told = _told(error)
        report(told)
        return told.exit_code
    return result if isinstance(result, int) else 0


def _told(error: Exception) -> IngotError:
    """Put any error into words for the user."""
    # The base of typer's usage errors is in a private module of typer.
    usage_error = typer.BadParameter.__mro__[1]
    if isinstance(error, IngotError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    if isinstance(error, usage_error):
        return _usage(error)
    if isinstance(error, typer.Abort):
        return IngotError("aborted; nothing was changed", code="E_ABORTED")
    if isinstance(error, MemoryError):
        return StorageError("out of memory", code="E_MEMORY", hint="Use fewer `--jobs`")
    message = f"unexpected {type(error).__name__}: {error}"
    hint = "This is a bug in ingot: run again with INGOT_DEBUG=1 and report the traceback"
    return IngotError(message, code="E_BUG", hint=hint)


def _usage(error: Exception) -> UsageError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ingot"
    format_message = getattr(error, "format_message", error.__str__)
    message = str(format_message()).rstrip(".")
    return UsageError(message, code="E_USAGE", hint=f"`{command} --help` explains the command")


def _on_signal(number: int, _: FrameType | None) -> NoReturn:
    # Once: a second signal must not interrupt the cleaning up.
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise Signalled(number)


def _die(number: int) -> NoReturn:
    # By the signal itself, so that a shell knows that its loop was interrupted.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
