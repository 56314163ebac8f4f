"""`ingot create`: import a checkpoint under a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import (
    InitOpt,
    JobsOpt,
    JsonOpt,
    MaxMemoryOpt,
    NoClobberOpt,
    NoFsyncOpt,
    ProgressOpt,
    SchedulerOpt,
    StoreOpt,
    memory,
    store_to_fill,
    threads,
)
from cli.commands.type_options import (
    AllowOpt,
    CalibrateOpt,
    EmbeddingOpt,
    Experts,
    ExpertsOpt,
    GroupSizeOpt,
    ImatrixOpt,
    LmHeadOpt,
    OnMisalignedOpt,
    QuantizeOpt,
    RecipeOpt,
    RuleOpt,
    SensitivityOpt,
    SymmetricOpt,
    TargetBpwOpt,
    TargetSizeOpt,
    VisionOpt,
)
from cli.panels import RESOURCES, SOURCE
from cli.views.progress_style import Style
from store.errors import UsageError
from store.text import printable

if TYPE_CHECKING:
    from store import Digest


def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name that the model gets: NAME[:TAG].")
    ],
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
            rich_help_panel=SOURCE,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Import this variant of the weights, such as fp16 or Q4_K_M.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    quantize: QuantizeOpt = None,
    group_size: GroupSizeOpt = None,
    calibrate: CalibrateOpt = None,
    imatrix: ImatrixOpt = None,
    symmetric: SymmetricOpt = False,
    recipe: RecipeOpt = None,
    rule: RuleOpt = None,
    embedding: EmbeddingOpt = None,
    lm_head: LmHeadOpt = None,
    vision: VisionOpt = None,
    target_size: TargetSizeOpt = None,
    target_bpw: TargetBpwOpt = None,
    allow: AllowOpt = None,
    sensitivity: SensitivityOpt = None,
    experts: ExpertsOpt = None,
    on_misaligned: OnMisalignedOpt = None,
    unpack: Annotated[
        bool,
        typer.Option(
            "--unpack",
            help="Take the tensors out of a GGUF file, which is kept whole otherwise.",
            rich_help_panel=SOURCE,
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
    no_clobber: NoClobberOpt = False,
    rehash: Annotated[
        bool,
        typer.Option(
            "--rehash",
            help="Read the source and hash the blobs again, even if nothing changed.",
            rich_help_panel=RESOURCES,
        ),
    ] = False,
    jobs: JobsOpt = None,
    max_memory: MaxMemoryOpt = None,
    scheduler: SchedulerOpt = None,
    no_fsync: NoFsyncOpt = False,
    init: InitOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Import a checkpoint into the store under NAME.

    Example: ingot create llama ./Llama-3.2-1B -q int4
    Example: ingot create qwen hf:Qwen/Qwen3-0.6B --dry-run
    Example: ingot create small ./Qwen3-8B --target-size 5GB
    Example: ingot create shrimp -f Modelfile
    """
    from cli.commands.creation import derive, make, show_plan
    from cli.commands.modelfile import load
    from cli.commands.sources import source_to_import
    from cli.views.progress import listening
    from importer.recipes.options import parse_options
    from importer.recipes.recipe import Misaligned
    from importer.request import NO_USE, ImportRequest, is_derived
    from store import ModelName

    _check_is_a_name(name, source)
    words = [word for text in allow or () for word in text.split(",")]
    size = memory(target_size, "--target-size")
    budget = None
    if words or (size, target_bpw, sensitivity) != (None, None, None):
        from importer.recipes.budget import parse_budget, recipe_of

        budget = parse_budget(size, target_bpw, words, sensitivity)
        recipe = recipe_of(quantize, recipe)
    asked = parse_options(
        quantize,
        group_size=group_size,
        recipe=recipe,
        rules=rule or (),
        roles={"embedding": embedding, "lm-head": lm_head, "vision": vision},
        misaligned=Misaligned(on_misaligned) if on_misaligned else None,
        stacked=None if experts is None else experts is Experts.STACKED,
        allow_nonfinite=allow_nonfinite,
        calibrate=calibrate,
        symmetric=symmetric or None,
        has_imatrix=imatrix is not None,
        chooses=budget is not None,
    )
    given = load(file, has_source=source is not None)
    content = given.content if given else None
    base = content.base.text if content and content.base else ""
    modes = {"samples": budget is not None, "report": report, "dry_run": dry_run}
    phases = _phases(source or base, **modes)
    with (
        store_to_fill(store, is_durable=not no_fsync, may_init=init) as opened,
        listening(progress, phases) as listen,
    ):
        request = ImportRequest(
            ModelName.parse(name),
            source_to_import(source, given, opened, is_found=file is None),
            asked,
            variant=variant,
            threads=threads(jobs),
            max_memory=memory(max_memory),
            rehash=rehash,
            strict=strict,
            report=report,
            clobber=not no_clobber,
            unpack=unpack,
            use=content.use if content else NO_USE,
            draft=given.path(content.draft) if given and content else None,
            adapter=given.path(content.adapter) if given and content else None,
            imatrix=_matrix(imatrix),
            scheduler=scheduler,
            budget=budget,
        )
        notes = content.notes if content else ()
        if content and is_derived(request):
            derive(request, opened, notes, dry_run=dry_run, json=json)
        elif dry_run:
            show_plan(request, opened, listen, notes, json=json)
        else:
            make(request, opened, listen, notes, json=json)


def _matrix(text: str | None) -> Path | Digest | None:
    """Return the file that was named, or the digest of one in the store."""
    from store import Digest

    if text is None or not text.startswith("sha256:") or Path(text).exists():
        return None if text is None else Path(text)
    return Digest.parse(text)


def _phases(source: str, *, samples: bool, report: bool, dry_run: bool) -> list[str]:
    from cli.views.progress_state import (
        FETCHING,
        MEASURING,
        READING,
        SAMPLING,
        WRITING,
    )

    wanted = {
        FETCHING: source.startswith(_HUB) or "://" in source,
        READING: True,
        SAMPLING: samples,
        WRITING: not dry_run,
        MEASURING: report and not dry_run,
    }
    return [phase for phase, is_wanted in wanted.items() if is_wanted]


def _check_is_a_name(name: str, source: str | None) -> None:
    """Raise UsageError for a source where the name should be: forgotten, or swapped."""
    import os
    import shlex

    is_path = "/" in name and os.path.exists(name)
    if source is None:
        is_source = name.startswith((*_NEVER_NAMES, *_HUB)) or is_path
        words = ["NAME", name]
    else:
        is_source = name.startswith(_NEVER_NAMES) or (is_path and not os.path.exists(source))
        words = [source, name]
        if "/" in source and (source.startswith(_NEVER_NAMES) or os.path.exists(source)):
            words = ["NAME", source]  # swapped they would be as wrong
    if is_source:
        better = shlex.join(["ingot", "create", *words])
        raise UsageError(
            f"`{printable(name)}` is a source, expected the name of a model",
            code="E_NAME",
            hint=f"The name comes first: `{printable(better)}`",
        )


_HUB = ("hf:", "hf.co/", "huggingface.co/")
_NEVER_NAMES = ("./", "../", "/", "~", "hf:")
