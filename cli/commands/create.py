"""`ingot create`: import a checkpoint under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import (
    InitOpt,
    JobsOpt,
    JsonOpt,
    MaxMemoryOpt,
    NameArg,
    NoFsyncOpt,
    StoreOpt,
    memory,
    open_store,
    threads,
)
from cli.commands.type_options import (
    EmbeddingOpt,
    Experts,
    ExpertsOpt,
    GroupSizeOpt,
    LmHeadOpt,
    OnMisalignedOpt,
    QuantizeOpt,
    RecipeOpt,
    RuleOpt,
    VisionOpt,
)

if TYPE_CHECKING:
    from importer.pipeline import ImportResult
    from importer.planning.plan import Job, Plan
    from importer.request import ImportRequest
    from store import Store


def create(
    name: NameArg,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="A directory, a file of weights, a model in the store, or one on the "
            "Hugging Face Hub: hf:org/repo[@revision], hf.co/org/repo or its web address. "
            "Without one, what the Modelfile says, or else the current directory.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="MODELFILE",
            help="Do what this Modelfile says; without SOURCE, `Modelfile` if there is one.",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Import this variant of the weights, such as fp16 or Q4_K_M."
        ),
    ] = None,
    quantize: QuantizeOpt = None,
    group_size: GroupSizeOpt = None,
    recipe: RecipeOpt = None,
    rule: RuleOpt = None,
    embedding: EmbeddingOpt = None,
    lm_head: LmHeadOpt = None,
    vision: VisionOpt = None,
    experts: ExpertsOpt = None,
    on_misaligned: OnMisalignedOpt = None,
    unpack: Annotated[
        bool,
        typer.Option(
            "--unpack",
            help="Take the tensors out of a GGUF file, which is kept whole otherwise.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if a tensor does not fit its rule.")
    ] = False,
    allow_nonfinite: Annotated[
        bool,
        typer.Option(
            "--allow-nonfinite", help="Quantize tensors even if they hold NaN or infinity."
        ),
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Measure what quantizing costs; `ingot show NAME --quality` prints it.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the plan and write nothing to the store. Of a model on the Hub only "
            "headers of weights and small files are fetched, the latter into the Hub's cache.",
        ),
    ] = False,
    rehash: Annotated[
        bool,
        typer.Option(
            "--rehash",
            help="Read the source and hash the blobs again, even if nothing changed.",
        ),
    ] = False,
    jobs: JobsOpt = None,
    max_memory: MaxMemoryOpt = None,
    no_fsync: NoFsyncOpt = False,
    init: InitOpt = False,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Import a checkpoint into the store under NAME.

    Example: ingot create llama ./Llama-3.2-1B -q int4
    """
    import time
    from functools import partial

    from cli.commands.modelfile import load
    from cli.views.ollama import runs_of_plan, warning
    from cli.views.progress import listening
    from importer.pipeline import import_model, new_jobs, plan_import
    from importer.recipes.options import parse_options
    from importer.recipes.recipe import Misaligned
    from importer.request import NO_USE, ImportRequest, is_derived
    from importer.sources.location import parse_source
    from store import ModelName
    from store.lookup import find_name

    started = time.monotonic()
    asked = parse_options(
        quantize,
        group_size=group_size,
        recipe=recipe,
        rules=rule or (),
        roles={"embedding": embedding, "lm-head": lm_head, "vision": vision},
        misaligned=Misaligned(on_misaligned) if on_misaligned else None,
        stacked=None if experts is None else experts is Experts.STACKED,
        allow_nonfinite=allow_nonfinite,
    )
    given = load(file, has_source=source is not None)
    content = given.content if given else None
    with (
        open_store(store, is_durable=not no_fsync, may_init=init) as opened,
        listening() as listen,
    ):
        stored = partial(find_name, opened.catalog)
        if given and source is None:
            place = given.source(stored)
        else:
            place = parse_source("." if source is None else source, stored)
        request = ImportRequest(
            ModelName.parse(name),
            place,
            asked,
            variant=variant,
            threads=threads(jobs),
            max_memory=memory(max_memory),
            rehash=rehash,
            strict=strict,
            report=report,
            unpack=unpack,
            use=content.use if content else NO_USE,
            draft=given.path(content.draft) if given and content else None,
            adapter=given.path(content.adapter) if given and content else None,
        )
        notes = content.notes if content else ()
        if content and is_derived(request):
            _derive(request, opened, notes, dry_run=dry_run, json=json)
            return
        plan = plan_import(request, opened, listen, only_headers=dry_run)
        if (told := warning(runs_of_plan(plan))) is not None:
            notes = (*notes, told)
        plan = plan._replace(warnings=(*plan.warnings, *notes))
        if dry_run:
            new = new_jobs(plan, opened, trusts=not rehash)
            _print_plan(request, plan, new, json=json)
            return
        result = import_model(request, plan, opened, listen)
    _print_result(result, plan, time.monotonic() - started, json=json)


def _derive(
    request: ImportRequest, store: Store, notes: tuple[str, ...], *, dry_run: bool, json: bool
) -> None:
    from cli.views.console import out, out_json, talk, warn
    from cli.views.derivation import (
        plan_document,
        plan_lines,
        result_document,
        result_lines,
    )
    from importer.modelfile.derive import derive
    from importer.sources.location import StoredModel

    assert isinstance(request.source, StoredModel), "others are imported"
    name, base = request.name, request.source.name
    if dry_run and json:
        out_json("create", plan_document(name, base, request.use))
        return
    for note in () if json else notes:
        warn(note)
    if dry_run:
        store.catalog.get(base)
        out(plan_lines(name, base, request.use))
        return
    made = derive(store, name, base, request.use)
    if json:
        out_json("create", result_document(made, base, notes))
        return
    for line in result_lines(made, base):
        talk(line)
    out([f"{made.name} {made.digest}"])


def _print_result(result: ImportResult, plan: Plan, seconds: float, *, json: bool) -> None:
    from cli.views.console import out, out_json, talk, warn
    from store import CommitOutcome
    from store.text import count, size

    tallies = {outcome: result.tally(outcome) for outcome in CommitOutcome}
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
        if blobs or outcome is CommitOutcome.NEW
    ]
    talk(f"{', '.join(words)} in {seconds:.1f} s")
    out([f"{result.name} {result.digest}"])


_VERBS = {"new": "wrote"}


def _print_plan(request: ImportRequest, plan: Plan, new: list[Job], *, json: bool) -> None:
    from cli.views.console import out, out_json
    from cli.views.derivation import said
    from cli.views.plan import plan_document, plan_lines

    name = str(request.name)
    if json:
        document = plan_document(plan, new)
        told = {"says": list(said(request.use))}
        out_json("create", {"name": name, "dry_run": True, **document, **told})
    else:
        out(plan_lines(name, plan, new))
        out(f"{word} as the Modelfile says" for word in said(request.use))
