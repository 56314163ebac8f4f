"""`ingot df`: disk usage, and what would free it."""

from __future__ import annotations

from pathlib import Path

import typer

from cli.commands.options import MANIFEST_REMEDY, JsonOpt, StoreOpt, existing_store


def df(store: StoreOpt = None, json: JsonOpt = False) -> None:
    """Show what each model takes of the disk, alone and shared, and what gc would free.

    Example: ingot df
    """
    from cli.views.console import out, out_json, warn
    from cli.views.usage import usage_document, usage_lines
    from store.usage import usage_of

    opened = existing_store(store)
    usage = usage_of(opened)
    for problem in usage.problems:
        warn(f"{problem}; {MANIFEST_REMEDY}")
    kernels = _kernels()
    if json:
        out_json("df", usage_document(opened, usage, kernels))
    else:
        out(usage_lines(opened, usage, kernels))
    if usage.problems:
        raise typer.Exit(5)


def _kernels() -> tuple[Path, int] | None:
    """Return where compiled kernels are kept, and their bytes, or None where nowhere."""
    from importer.codecs.kernels.object_cache import directory

    mine = directory()
    if mine is None:
        return None
    place = mine.parent
    files = (path for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    return place, sum(path.stat().st_size for path in files)
