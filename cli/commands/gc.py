"""`ingot gc`: free what no model names."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer

from cli.commands.options import JsonOpt, ProgressOpt, StoreOpt, existing_store
from cli.views.progress_style import Style


def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Treat the writers on this host as dead, in a store that several hosts share.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How long to wait for writers to step aside."
        ),
    ] = 10.0,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Delete unreferenced blobs, and what interrupted imports left behind.

    Example: ingot gc --dry-run
    """
    from cli.views.console import out, out_json, talk
    from cli.views.gc import gc_document, gc_lines
    from cli.views.progress import listening
    from cli.views.progress_state import COLLECTING
    from cli.views.table import fitted
    from store.errors import UsageError
    from store.gc import GarbageCollector
    from store.usage import former_owners

    can_ask = None not in (sys.stdin, sys.stderr) and sys.stdin.isatty()
    interactive = can_ask and not json
    if not (dry_run or yes or interactive):
        message = "gc asks before it removes anything, and there is no terminal to ask on"
        raise UsageError(message, code="E_USAGE", hint="ingot gc --yes, or ingot gc --dry-run")
    if not math.isfinite(wait):
        raise UsageError(f"`--wait` is {wait}, expected seconds", code="E_USAGE")
    with existing_store(store) as opened:
        collector = GarbageCollector(opened, frozenset(forget or ()), wait)
        history = opened.history.read()  # before it goes
        with listening(progress, (COLLECTING,)):
            done = collector.plan() if dry_run or not yes else collector.run()
        owners = former_owners(history, done)
        if interactive and not (dry_run or yes or done.is_empty):
            out(fitted(gc_lines(done, owners, would=True)))
            if not _confirm("Remove all this? [y/N]: "):
                # As docker does: what was asked for has been done, so the exit code is 0.
                talk("nothing was removed")
                return
            with listening(progress, (COLLECTING,)):
                done = collector.run()
    if json:
        out_json("gc", {"dry_run": dry_run, **gc_document(done, owners)})
    else:
        out(fitted(gc_lines(done, owners, would=dry_run)))


def _confirm(question: str) -> bool:
    # As `typer.confirm`, which writes a blank to stdout, where the result goes.
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.buffer.readline()
    if not answer.endswith(b"\n"):  # Ctrl-D
        sys.stderr.write("\n")
    return answer.strip().lower() in {b"y", b"yes"}
