"""How typer reads a command line, with what it lacks: `--json` first, our words, no twins."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from typer import Exit, TyperException
from typer.core import TyperCommand, TyperGroup, TyperOption

from cli.panels import COMMON
from cli.views.console import be_quiet, out, speak_json
from store.errors import UsageError

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
        seen = _look(self, ctx, args)
        _check_once(seen)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise _told(error, self, ctx, seen) from error

    def get_help_option(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - what is returned has no public type
        """Return the flag that explains the command."""
        return _help_option(self, ctx)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above, and what is returned has no public type
        """Find the command; the first word is one, or an error says which there are."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            from cli.usage import no_command

            raise no_command(args[0], self, ctx)
        return super().resolve_command(ctx, args)


class Command(TyperCommand):
    """A command that speaks as its flags say, errors about the others included."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - typer's own
        """Give the command the flag that every command has."""
        super().__init__(*arguments, **named)
        self.params.append(
            TyperOption(
                param_decls=["--quiet"],
                is_flag=True,
                default=False,
                expose_value=False,
                help="Print results, warnings and errors, and nothing else.",
                rich_help_panel=COMMON,
            )
        )

    def get_help_option(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above
        """Return the flag that explains the command."""
        return _help_option(self, ctx)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # as above
        """Read the options, `--json` first: the others may be wrong."""
        speak_json(wanted=False)
        seen = _look(self, ctx, args)
        speak_json(wanted=seen.options.get("json") is True)
        be_quiet(wanted=seen.options.get("quiet") is True)
        before = ctx.parent.params if ctx.parent is not None else {}
        _check_once(seen, {name for name, value in before.items() if value})
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise _told(error, self, ctx, seen) from error


def _help_option(command: TyperCommand | TyperGroup, ctx: typer.Context) -> TyperOption:
    def explain(_: object, __: object, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            from cli.views.help import help_lines

            out(help_lines(command, ctx))
            raise Exit

    return TyperOption(
        param_decls=["-h", "--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=explain,
        help="Explain the command.",
        rich_help_panel=COMMON,
    )


class _Seen(NamedTuple):
    """What a command line says, as far as it can be read.

    Attributes:
        options: name -> what was given, as it was typed.
        rest: words that are neither options nor the command's arguments.
        order: of the parameters as they were given.
    """

    options: dict[str, Any]
    rest: list[str]
    order: list[Any]


def _look(command: TyperCommand | TyperGroup, ctx: typer.Context, args: Sequence[str]) -> _Seen:
    resilient, ctx.resilient_parsing = ctx.resilient_parsing, True
    try:
        parser = command.make_parser(ctx)
        parser.ignore_unknown_options = True
        return _Seen(*parser.parse_args(list(args)))
    finally:
        ctx.resilient_parsing = resilient


def _check_once(seen: _Seen, before: Container[str] = ()) -> None:
    """Raise UsageError where an option is given twice, of which one would silently win.

    Args:
        before: options that were given before the command.
    """
    found: set[str] = set()
    for one in seen.order:
        if one.param_type_name != "option" or one.multiple or one.is_eager:
            continue
        if one.name in found or one.name in before:
            from cli.usage import twice

            raise twice(next(word for word in one.opts if word.startswith("--")))
        found.add(one.name)


def _told(
    error: TyperException, command: TyperCommand | TyperGroup, ctx: typer.Context, seen: _Seen
) -> UsageError:
    from cli.usage import in_our_words

    return in_our_words(error, command, ctx, seen.options, seen.rest)
