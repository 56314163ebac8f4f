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
) -> None:
    """Explain a command.

    Example: ingot help create
    """
    from cli.usage import no_command
    from cli.views.console import out
    from cli.views.help import help_lines

    above = cast("Any", ctx.parent)  # typer's own classes of groups and contexts
    if command is None:
        out(help_lines(above.command, above))
        return
    found = above.command.commands.get(command)
    if found is None:
        raise no_command(command, above.command, above)
    out(help_lines(found, typer.Context(found, parent=above, info_name=command)))
