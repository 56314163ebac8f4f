"""`ingot export`: write a model in the form that another program loads."""

from __future__ import annotations

import contextlib
from enum import StrEnum, unique
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import (
    JobsOpt,
    JsonOpt,
    MaxMemoryOpt,
    NoFsyncOpt,
    ProgressOpt,
    SchedulerOpt,
    StoreOpt,
    memory,
    open_store,
    threads,
)
from cli.commands.sources import source_to_read
from cli.views.progress_style import Style


@unique
class Format(StrEnum):
    """What another program loads; a name of `importer.exports.formats`."""

    GGUF = "gguf"
    HF = "hf"
    MLX = "mlx"
    UQFF = "uqff"


@unique
class Dtype(StrEnum):
    """A float type."""

    BF16 = "bf16"
    F16 = "f16"
    F32 = "f32"


def export(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A model in the store, or what `ingot create` takes as SOURCE.",
        ),
    ],
    dest: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            help="A directory that does not exist yet, or an empty one; for gguf a file, "
            "unless it is a split or there is --mmproj.",
        ),
    ],
    to: Annotated[
        Format,
        typer.Option(
            "--to",
            help="The format: hf is what from_pretrained loads, mlx what mlx_lm.load loads, "
            "uqff what mistral.rs loads, gguf what llama.cpp loads.",
        ),
    ],
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            "-q",
            metavar="TYPE",
            help="With --to mlx, quantize to a type of `ingot create`, as mlx_lm.convert does; "
            "with --to uqff to a type of mistral.rs, or to several with commas between them; "
            "with --to gguf to f32, f16, bf16, or a type of llama-quantize such as q4_k_m.",
        ),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            "--group-size", metavar="N", help="Group size of an int or AFQ type: 32, 64 or 128."
        ),
    ] = None,
    imatrix: Annotated[
        str | None,
        typer.Option(
            "--imatrix",
            metavar="FILE",
            help="With --to gguf, or a K type of uqff: weigh columns by an importance matrix.",
        ),
    ] = None,
    mmproj: Annotated[
        bool,
        typer.Option(
            "--mmproj",
            help="With --to gguf, write the vision tower, too, as mmproj-NAME.gguf; DEST is a "
            "directory.",
        ),
    ] = False,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="NAME|FILE",
            help="Decide which tensors get which type: mlx, mixed_3_6, another of "
            "`ingot create`, or a TOML file.",
        ),
    ] = None,
    dtype: Annotated[
        Dtype | None,
        typer.Option("--dtype", help="Give every float this type; decode what is packed."),
    ] = None,
    shard_size: Annotated[
        str | None,
        typer.Option(
            "--shard-size",
            "--split-max-size",
            metavar="SIZE",
            help="Bytes of weights in a file, at most, such as 2GB; by default what the "
            "format's own program writes. For gguf: write a split, DEST is a directory.",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Export this variant of a source's weights."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if the format cannot hold everything.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and write nothing.")
    ] = False,
    jobs: JobsOpt = None,
    max_memory: MaxMemoryOpt = None,
    scheduler: SchedulerOpt = None,
    no_fsync: NoFsyncOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Write a model to DEST, for another program.

    Example: ingot export llama ./llama-hf --to hf
    """
    import time

    from cli.views.export import print_plan, print_result
    from cli.views.progress import listening
    from cli.views.progress_state import READING, WRITING
    from importer.exports.base import ExportOptions
    from importer.exports.export import ExportRequest, export_model, plan_export
    from importer.sources.location import HubRepository
    from store.errors import UsageError

    started = time.monotonic()
    if dest == "":  # as of `"$UNSET"`: not the current directory
        raise UsageError("DEST is empty, expected a directory", code="E_USAGE")
    size = memory(shard_size, "--shard-size")
    if size is not None and size < 1:
        raise UsageError(f"`--shard-size {shard_size}`: expected at least 1", code="E_USAGE")
    options = ExportOptions(
        quantize,
        group_size,
        recipe,
        dtype.value.upper() if dtype else None,
        size,
        imatrix=imatrix,
        projector=mmproj,
    )
    if mmproj and to is not Format.GGUF:
        raise UsageError("`--mmproj` goes with `--to gguf` alone", code="E_USAGE")
    if imatrix is not None and to not in {Format.GGUF, Format.UQFF}:
        raise UsageError("`--imatrix` goes with `--to gguf` and `--to uqff`", code="E_USAGE")
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_store(store, is_durable=not no_fsync))
        phases = (READING,) if dry_run else (READING, WRITING)
        listen = stack.enter_context(listening(progress, phases))
        source = source_to_read(name, opened)
        if scheduler is not None and isinstance(source, HubRepository) and not dry_run:
            from importer.engine.cluster.connection import reach

            reach(scheduler)  # before hours of a download
        request = ExportRequest(
            source,
            Path(dest),
            to.value,
            options,
            variant=variant,
            threads=threads(jobs),
            max_memory=memory(max_memory),
            strict=strict,
            scheduler=scheduler,
        )
        planned = plan_export(request, opened, listen)
        if not dry_run:
            export_model(request, planned, opened, listen)
    if dry_run:
        print_plan(name, to.value, planned, json=json)
    else:
        print_result(to.value, planned, time.monotonic() - started, json=json)
