"""`ingot help`: explain a command, or list them all."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer


def help_(
    ctx: typer.Context,
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="[COMMAND]", help="The command to explain; without one, all are listed."
        ),
    ] = None,
    man: Annotated[
        bool, typer.Option("--man", help="Print a manual page, which `man -l -` shows.")
    ] = False,
) -> None:
    """Explain a command.

    Example: ingot help create
    """
    from cli.usage import no_command
    from cli.views.console import out
    from cli.views.help import help_lines, page_of

    above = cast("Any", ctx.parent)  # typer's own classes of groups and contexts
    explained, context, name = above.command, above, "ingot"
    if command is not None:
        explained = above.command.commands.get(command)
        if explained is None:
            raise no_command(command, above.command, above)
        context = typer.Context(explained, parent=above, info_name=command)
        name = f"ingot-{command}"
    if man:
        from cli.version import version_of_ingot
        from cli.views.man import man_lines

        out(man_lines(page_of(explained, context), name, version_of_ingot()))
    else:
        out(help_lines(explained, context))
