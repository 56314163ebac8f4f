"""`ingot create`: import a checkpoint under a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JobsOpt, JsonOpt, NameArg, StoreOpt, open_store, threads

if TYPE_CHECKING:
    from importer.pipeline import ImportResult
    from importer.plan import Plan


def create(
    name: NameArg,
    source: Annotated[
        Path,
        typer.Argument(metavar="[SOURCE]", help="A directory, or a `.safetensors` file."),
    ] = Path(),
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the weights, such as fp16.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and write nothing.")
    ] = False,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Believe no blob that is there already.")
    ] = False,
    jobs: JobsOpt = None,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Import a checkpoint into the store under NAME.

    Example: ingot create llama ./Llama-3.2-1B
    """
    import time

    from cli.progress import listening
    from importer.pipeline import ImportRequest, import_model, plan_import
    from store import ModelName

    started = time.monotonic()
    request = ImportRequest(
        ModelName.parse(name), source, variant=variant, threads=threads(jobs)
    )
    with open_store(store) as opened, listening() as listen:
        plan = plan_import(request, opened, listen)
        if dry_run:
            _print_plan(request.name, plan, json=json)
            return
        if rehash:
            opened.memo.clear()
        result = import_model(request, plan, opened, listen)
    _print_result(result, plan, time.monotonic() - started, json=json)


def _print_result(result: ImportResult, plan: Plan, seconds: float, *, json: bool) -> None:
    from cli.console import out, out_json, talk, warn
    from cli.text import count, size
    from store import Installed

    tallies = {outcome: result.tally(outcome) for outcome in Installed}
    if json:
        document = {
            "name": str(result.name),
            "digest": str(result.digest),
            "replaced": str(result.replaced) if result.replaced else None,
            "tensors": len(plan.inventory.tensors),
            "blobs": {
                outcome: {"count": blobs, "bytes": nbytes}
                for outcome, (blobs, nbytes) in tallies.items()
            },
            "warnings": list(plan.warnings),
            "milliseconds": round(seconds * 1000),
        }
        out_json("create", document)
        return
    for warning in plan.warnings:
        warn(warning)
    if result.replaced == result.digest:
        talk(f"{result.name} is unchanged")
    elif result.replaced is not None:
        talk(f"replaced {result.name} (was {result.replaced.short})")
    words = [
        f"{_VERBS.get(outcome, outcome)} {count(blobs, 'blob')} ({size(nbytes)})"
        for outcome, (blobs, nbytes) in tallies.items()
        if blobs or outcome is Installed.NEW
    ]
    talk(f"{', '.join(words)} in {seconds:.1f} s")
    out([f"{result.name} {result.digest}"])


_VERBS = {"new": "wrote"}


def _print_plan(name: object, plan: Plan, *, json: bool) -> None:
    from cli.console import out, out_json
    from cli.plan import plan_document, plan_lines

    if json:
        out_json("create", {"name": str(name), "dry_run": True, **plan_document(plan)})
    else:
        out(plan_lines(str(name), plan))
