"""The command `ingot` and its subcommands, of which only what is typed is built."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Final

import typer

from cli.commands.options import check_store_path
from cli.environment import STORE_VARIABLE
from cli.parser import Command, Group
from cli.views.console import out

_COMMANDS: Final = MappingProxyType(
    {
        "create": "cli.commands.create:create",
        "show": "cli.commands.show:show",
        "list": "cli.commands.models:list_models",
        "ls": "cli.commands.models:list_models",
        "df": "cli.commands.df:df",
        "cp": "cli.commands.models:copy_model",
        "rm": "cli.commands.models:remove_models",
        "sync": "cli.commands.sync:sync",
        "push": "cli.commands.registry:push",
        "pull": "cli.commands.registry:pull",
        "save": "cli.commands.layout:save",
        "load": "cli.commands.layout:load",
        "export": "cli.commands.export:export",
        "diff": "cli.commands.diff:diff",
        "eval": "cli.commands.evaluate:evaluate",
        "imatrix": "cli.commands.imatrix:imatrix",
        "verify": "cli.commands.verify:verify",
        "gc": "cli.commands.gc:gc",
        "completion": "cli.commands.completion:completion",
        "help": "cli.commands.help:help_",
    }
)
_ALIASES: Final = frozenset({"ls"})


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


def named(words: list[str]) -> str:
    """Return a blank and the command that some words name, or nothing."""
    word = command_word(words)
    return f" {word}" if word in _COMMANDS else ""


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
        from cli.version import version_of_ingot

        out([f"ingot {version_of_ingot()}"])
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
