"""`ingot gc`: free what no model names."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import JsonOpt, StoreOpt, existing_store

if TYPE_CHECKING:
    from store.mark import GcPlan


def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Take the writers on this host for dead, in a store that several hosts share.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How long to wait for writers to step aside."
        ),
    ] = 10.0,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Free the blobs that no model names, and what killed imports left behind.

    Example: ingot gc --dry-run
    """
    from cli.views.console import out, out_json, talk
    from store.errors import UsageError
    from store.gc import GarbageCollector

    can_ask = None not in (sys.stdin, sys.stderr) and sys.stdin.isatty()
    interactive = can_ask and not json
    if not (dry_run or yes or interactive):
        message = "gc asks before it removes anything, and there is no terminal to ask on"
        raise UsageError(message, code="E_USAGE", hint="ingot gc --yes, or ingot gc --dry-run")
    if not math.isfinite(wait):
        raise UsageError(f"`--wait` is {wait}, expected seconds", code="E_USAGE")
    with existing_store(store) as opened:
        collector = GarbageCollector(opened, frozenset(forget or ()), wait)
        done = collector.plan() if dry_run or not yes else collector.run()
        if interactive and not (dry_run or yes or done.is_empty):
            out(_lines(done, would=True))
            if not _confirm("Remove all this? [y/N]: "):
                # As docker does: what was asked for has been done, so the exit code is 0.
                talk("nothing was removed")
                return
            done = collector.run()
    if json:
        out_json("gc", {"dry_run": dry_run, **_document(done)})
    else:
        out(_lines(done, would=dry_run))


def _confirm(question: str) -> bool:
    # As `typer.confirm`, which writes a blank to stdout, where the result goes.
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.buffer.readline()
    if not answer.endswith(b"\n"):  # Ctrl-D
        sys.stderr.write("\n")
    return answer.strip().lower() in {b"y", b"yes"}


def _lines(plan: GcPlan, *, would: bool) -> list[str]:
    from store.text import count, size

    lines = []
    for writer in plan.unfinished:
        if writer.purpose:
            going = f", {size(writer.pinned_bytes)} of finished blobs" if writer.blobs else ""
            lines.append(f"unfinished import of {writer.purpose}{going}")
    lines += [
        f"kept what writers on {host} may need; `--forget {host}` if they are dead"
        for host in sorted({writer.host for writer in plan.foreign})
    ]
    if plan.is_empty:
        return [*lines, "nothing to free"]
    parts = [count(len(plan.blobs), "blob")]
    if plan.unfinished:
        parts.append(count(len(plan.unfinished), "unfinished writer"))
    if plan.quarantined:
        parts.append(f"{len(plan.quarantined)} from quarantine")
    if plan.former:
        parts.append(f"{len(plan.former)} of history")
    verb = "would free" if would else "freed"
    return [*lines, f"{verb} {size(plan.nbytes)}: {', '.join(parts)}"]


def _document(plan: GcPlan) -> dict[str, object]:
    return {
        "bytes": plan.nbytes,
        "blobs": [{"digest": str(blob.digest), "bytes": blob.size} for blob in plan.blobs],
        "unfinished": [
            {
                "purpose": writer.purpose,
                "partial_bytes": writer.nbytes,
                "blobs": writer.blobs,
                "blob_bytes": writer.pinned_bytes,
            }
            for writer in plan.unfinished
        ],
        "quarantined": [{"name": name, "bytes": nbytes} for name, nbytes in plan.quarantined],
        "origins": [str(digest) for digest in plan.origins],
        "history": [{"name": str(one.name), "digest": str(one.digest)} for one in plan.former],
        "kept_writers": [{"host": writer.host, "pid": writer.pid} for writer in plan.kept],
    }
