"""`ingot diff`: what two models have in common, and how far they are apart."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from cli.commands.options import JobsOpt, JsonOpt, ProgressOpt, StoreOpt, open_store, threads
from cli.commands.sources import source_to_read, spelled_out
from cli.views.progress_style import Style

_DIFFERS = 12
"""The exit code where anything differs."""
_SIDE = "a model in the store, a directory or file, an export, or a model on the Hub"


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"What to compare with: {_SIDE}.")],
    b: Annotated[str, typer.Argument(metavar="B", help=f"What is compared: {_SIDE}.")],
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="List every tensor, equal ones, too, and every key."
        ),
    ] = False,
    jobs: JobsOpt = None,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> int | None:
    """Compare two models: tensors, values, files, templates, parameters, metadata.

    Of tensors whose values differ it says how far B is from A. Ends with exit code 12 when
    anything differs.

    Example: ingot diff llama llama-ft
    Example: ingot diff llama:q4 ./Llama-3.2-1B
    Example: ingot diff llama@0123abcd llama
    """
    from cli.views.console import out, out_json, talk
    from cli.views.diff import diff_lines, record_line
    from cli.views.diff_document import diff_document
    from cli.views.progress import listening
    from cli.views.progress_state import COMPARING, READING
    from cli.views.table import fitted
    from importer.verification.diff import diff as compare
    from importer.verification.recorded import recorded
    from store.errors import UsageError

    if "" in (a, b):  # as of `"$UNSET"`: not the current directory
        raise UsageError("a side is empty, expected a model", code="E_USAGE")
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_store(store))
        sides = source_to_read(a, opened), source_to_read(b, opened)
        listen = stack.enter_context(listening(progress, (READING, COMPARING)))
        found = compare(opened, *sides, threads=threads(jobs), listen=listen)
        apart = recorded(opened, *sides) if found.is_empty else None
    names = str(sides[0]), str(sides[1])
    spelled = spelled_out(sides[0]), spelled_out(sides[1])
    if json:
        out_json("diff", diff_document(names, found))
    else:
        out(fitted(diff_lines(spelled, found, verbose=verbose)))
    if apart is not None:
        talk(record_line(apart))
    return None if found.is_empty else _DIFFERS
