"""`ingot sync`: make the store hold what a list says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import (
    InitOpt,
    JobsOpt,
    JsonOpt,
    MaxMemoryOpt,
    ProgressOpt,
    StoreOpt,
    memory,
    store_to_fill,
    threads,
)
from cli.views.progress_style import Style


def sync(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A TOML file that lists models.")],
    locked: Annotated[
        bool,
        typer.Option(
            "--locked",
            help="Keep FILE.lock as it is, and fail if anything would differ from it.",
        ),
    ] = False,
    upgrade: Annotated[
        bool,
        typer.Option(
            "--upgrade", help="Ask the Hub again what revisions stand for, whatever is locked."
        ),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove the names that the list does not have.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
    jobs: JobsOpt = None,
    max_memory: MaxMemoryOpt = None,
    init: InitOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Create the models that a file lists and that are missing or differ.

    A list is a TOML file with a table for each model: [[model]] with name, source, and what
    `ingot create` takes: revision, variant, quantize, group_size, recipe, rules, embedding,
    lm_head, vision, experts, on_misaligned, allow_nonfinite, calibrate, symmetric, imatrix,
    target_size, target_bpw, allow, sensitivity, strict, report, unpack. FILE.lock gets the
    commits and manifests that came out.

    Example: ingot sync models.toml
    Example: ingot sync models.toml --locked
    """
    from functools import partial

    from cli.commands.sources import find_model
    from cli.views.console import out, out_json, talk
    from cli.views.progress import listening
    from cli.views.progress_state import READING, WRITING
    from cli.views.sync import Remarks, sync_document, sync_lines
    from cli.views.table import fitted
    from importer.sync.sync import SyncOptions
    from importer.sync.sync import sync as synced
    from store.errors import UsageError
    from store.text import printable

    if locked and upgrade:
        message = "`--locked` and `--upgrade` contradict each other"
        raise UsageError(message, code="E_USAGE", hint="Leave one of them out")
    with (
        store_to_fill(store, may_init=init) as opened,
        listening(progress, (READING,) if dry_run else (READING, WRITING)) as listen,
    ):
        modes = locked, upgrade, prune, dry_run
        limits = threads(jobs), memory(max_memory)
        options = SyncOptions(*modes, *limits, partial(find_model, opened))
        remarks = Remarks()
        done = synced(Path(path), opened, options, listen, remarks.tell)
    if done.lock is not None:
        where = printable(str(done.lock))
        talk(f"wrote {where}: commit it with the list, for `--locked` to make the same models")
    if json:
        out_json("sync", sync_document(done, remarks, dry_run=dry_run))
    else:
        out(fitted(sync_lines(done, dry_run=dry_run)))
