"""How typer reads a command line, with what it lacks: whether `--json` was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

from cli.views.console import speak_json

if TYPE_CHECKING:
    import typer


class Group(TyperGroup):
    """The command `ingot` itself."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # typer.Context is the one public name of what typer passes
        """Read what precedes the command, and whether an error about it should be JSON.

        Which option a word belongs to is unknown until the command is; `Command` decides.
        """
        words = args[: args.index("--")] if "--" in args else args
        speak_json(wanted="--json" in words)
        return super().parse_args(ctx, args)


class Command(TyperCommand):
    """A command whose errors are JSON when it was called with `--json`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # as above
        """Read the options, `--json` first: the others may be wrong."""
        speak_json(wanted=self._asks_for_json(ctx, args))
        return super().parse_args(ctx, args)

    def _asks_for_json(self, ctx: typer.Context, args: list[str]) -> bool:
        resilient, ctx.resilient_parsing = ctx.resilient_parsing, True
        try:
            parser = self.make_parser(ctx)
            parser.ignore_unknown_options = True
            options, _, _ = parser.parse_args(list(args))
        finally:
            ctx.resilient_parsing = resilient
        return options.get("json") is True
