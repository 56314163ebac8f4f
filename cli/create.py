"""`ingot create`: import a checkpoint under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JobsOpt, JsonOpt, NameArg, StoreOpt, open_store, threads

if TYPE_CHECKING:
    from importer.pipeline import ImportResult
    from importer.plan import Plan
    from importer.reuse import Job
    from store import ModelName


def create(
    name: NameArg,
    source: Annotated[
        str,
        typer.Argument(
            metavar="[SOURCE]",
            help="A directory, a `.safetensors` file, or a model on the Hugging Face Hub: "
            "hf:org/repo[@revision], hf.co/org/repo or its web address.",
        ),
    ] = ".",
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the weights, such as fp16.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the plan and write nothing to the store. From the Hub only headers of "
            "weights and small files are fetched, the latter into its cache.",
        ),
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
    from importer.pipeline import ImportRequest, import_model, new_jobs, plan_import
    from importer.sources.named import parse_source
    from store import ModelName

    started = time.monotonic()
    request = ImportRequest(
        ModelName.parse(name),
        parse_source(source),
        variant=variant,
        threads=threads(jobs),
        rehash=rehash,
    )
    with open_store(store) as opened, listening() as listen:
        plan = plan_import(request, opened, listen, only_headers=dry_run)
        if dry_run:
            new = new_jobs(plan, opened, trusts=not rehash)
            _print_plan(request.name, plan, new, json=json)
            return
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
            "left_out": [{"path": left.path, "reason": left.reason} for left in plan.left_out],
            "warnings": list(plan.warnings),
            "milliseconds": round(seconds * 1000),
        }
        out_json("create", document)
        return
    for warning in plan.warnings:
        warn(warning)
    if plan.left_out:
        reasons = ", ".join(sorted({left.reason for left in plan.left_out}))
        talk(f"left out {count(len(plan.left_out), 'file')} ({reasons}); --dry-run lists them")
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


def _print_plan(name: ModelName, plan: Plan, new: list[Job], *, json: bool) -> None:
    from cli.console import out, out_json
    from cli.plan import plan_document, plan_lines

    if json:
        document = plan_document(plan, new)
        out_json("create", {"name": str(name), "dry_run": True, **document})
    else:
        out(plan_lines(str(name), plan, new))
