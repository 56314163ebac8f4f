"""`ingot imatrix`: measure how much the columns of weights count."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.evaluation_options import (
    Compute,
    ComputeOpt,
    ContextOpt,
    DeviceOpt,
    LimitOpt,
    TextOpt,
    sequences,
    setup,
)
from cli.commands.options import JobsOpt, JsonOpt, ProgressOpt, StoreOpt, open_store
from cli.commands.sources import source_to_read
from cli.views.progress_style import Style


def imatrix(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A model in the store, or what `ingot create` takes as SOURCE.",
        ),
    ],
    text: TextOpt,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="What to write; an interrupted run goes on where it stopped.",
        ),
    ] = Path("imatrix.safetensors"),
    context: ContextOpt = None,
    limit: LimitOpt = None,
    dtype: ComputeOpt = Compute.F32,
    device: DeviceOpt = None,
    jobs: JobsOpt = None,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Measure the importance of columns on a text, for `create --imatrix`.

    Runs the model with transformers, which the extra ingot[torch] installs.

    Example: ingot imatrix ./Llama-3.2-1B --text calibration.txt -o llama.safetensors
    """
    from cli.views.console import out, out_json
    from cli.views.evaluation import imatrix_document, imatrix_lines
    from cli.views.progress import listening
    from cli.views.progress_state import EVALUATING, READING, WRITING
    from importer.evaluation.importance import measure_importance
    from importer.evaluation.models import check_installed, loaded
    from importer.evaluation.text import read_text

    check_installed()
    content = read_text(text)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_store(store))
        source = source_to_read(checkpoint, opened)
        listen = stack.enter_context(listening(progress, (READING, WRITING, EVALUATING)))
        model = stack.enter_context(loaded(source, opened, setup(dtype, device, jobs), listen))
        some = sequences(model, content, context, limit)
        measured = measure_importance(model, content, some, output, listen)
    if json:
        out_json("imatrix", imatrix_document(output, some, measured))
    else:
        out(imatrix_lines(output, some, measured))
