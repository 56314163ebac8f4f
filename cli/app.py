"""The command `ingot` and its subcommands, of which only what is typed is built."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

import typer

from cli.commands.options import check_store_path
from cli.environment import STORE_VARIABLE
from cli.parser import Command, Group
from cli.views.console import out


class _Command(NamedTuple):
    """Where a command is, and the summary that `ingot --help` gives of it.

    The summary is the first paragraph of the command's own help. `ingot --help` does not import
    the modules: that took 5 ms of 45, and 0.5 MiB.
    """

    target: str
    summary: str

    def load(self) -> Callable[..., object]:
        """Import the function that runs the command."""
        module, _, function = self.target.partition(":")
        found: Callable[..., object] = getattr(importlib.import_module(module), function)
        return found


_COMMANDS: Final = MappingProxyType(
    {
        "create": _Command(
            "cli.commands.create:create",
            "Import a checkpoint into the store under NAME.",
        ),
        "show": _Command(
            "cli.commands.show:show",
            "Show a model's details, also of a model that Ollama wrote.",
        ),
        "list": _Command(
            "cli.commands.models:list_models",
            "List the models in the store.",
        ),
        "ls": _Command("cli.commands.models:list_models", ""),
        "df": _Command(
            "cli.commands.df:df",
            "Show what each model takes of the disk, alone and shared, and what gc would free.",
        ),
        "cp": _Command(
            "cli.commands.models:copy_model",
            "Give a model a second name, here or in another store.",
        ),
        "rm": _Command(
            "cli.commands.models:remove_models",
            "Remove models by name; `ingot gc` then frees what no other model needs.",
        ),
        "sync": _Command(
            "cli.commands.sync:sync",
            "Create the models that a file lists and that are missing or differ.",
        ),
        "push": _Command(
            "cli.commands.registry:push",
            "Push a model to a registry; blobs that it already has are skipped.",
        ),
        "pull": _Command(
            "cli.commands.registry:pull",
            "Pull a model from a registry; blobs that the store already has are skipped.",
        ),
        "save": _Command(
            "cli.commands.layout:save",
            "Write models as an OCI image layout, for a machine without a network.",
        ),
        "load": _Command(
            "cli.commands.layout:load",
            "Put the models of an OCI image layout into the store.",
        ),
        "export": _Command(
            "cli.commands.export:export",
            "Write a model to DEST, for another program.",
        ),
        "diff": _Command(
            "cli.commands.diff:diff",
            "Compare two models: tensors, values, files, templates, parameters, metadata.",
        ),
        "eval": _Command(
            "cli.commands.evaluate:evaluate",
            "Compare the outputs of two models on a text, such as before and after quantizing.",
        ),
        "imatrix": _Command(
            "cli.commands.imatrix:imatrix",
            "Measure the importance of columns on a text, for `create --imatrix`.",
        ),
        "verify": _Command(
            "cli.commands.verify:verify",
            "Check every manifest and blob against its digest.",
        ),
        "gc": _Command(
            "cli.commands.gc:gc",
            "Delete unreferenced blobs, and what interrupted imports left behind.",
        ),
        "completion": _Command(
            "cli.commands.completion:completion",
            "Print the script that completes commands, flags, models and types in a shell.",
        ),
        "help": _Command(
            "cli.commands.help:help_",
            "Explain a command.",
        ),
    }
)
_ALIASES: Final = frozenset({"ls"})


def make_app(words: list[str]) -> typer.Typer:
    """Return the command line interface.

    Args:
        words: what the user typed. Of the commands that they do not name only the summaries
            are there: typer takes 0.2 ms to look at each parameter, and there are 120 in all.
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
    for name, command in _COMMANDS.items():
        if is_alone and name != word:
            continue
        run = command.load() if name in words else _summarized(command.summary)
        app.command(name, cls=Command, hidden=name in _ALIASES)(run)
    return app


def names_of_commands() -> list[str]:
    """Return the names of the commands, without their aliases."""
    return [name for name in _COMMANDS if name not in _ALIASES]


def _summarized(summary: str) -> Callable[[], None]:
    """Return a function with a docstring and no parameters: enough for a list of commands."""

    def command() -> None: ...

    command.__doc__ = summary
    return command


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
