"""`ingot eval`: compare what two models make of a text."""

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

_SIDE = "a model in the store, a directory or file, an export, or a model on the Hub"


def evaluate(
    a: Annotated[str, typer.Argument(metavar="A", help=f"What to compare with: {_SIDE}.")],
    b: Annotated[str, typer.Argument(metavar="B", help=f"What is compared: {_SIDE}.")],
    text: TextOpt,
    sensitivity: Annotated[
        Path | None,
        typer.Option(
            "--sensitivity",
            metavar="FILE",
            help="Also write what each matrix of B does alone, for `create --sensitivity`.",
            show_default=False,
        ),
    ] = None,
    context: ContextOpt = None,
    limit: LimitOpt = None,
    dtype: ComputeOpt = Compute.F32,
    device: DeviceOpt = None,
    jobs: JobsOpt = None,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Compare the outputs of two models on a text, such as before and after quantizing.

    Perplexity, divergence and agreement of language models; of encoders how alike embeddings
    are. Runs both with transformers, which the extra ingot[torch] installs.

    Example: ingot eval ./Llama-3.2-1B llama:q4 --text held-out.txt
    """
    from cli.views.console import out, out_json
    from cli.views.evaluation import eval_document, eval_lines, factor_lines
    from cli.views.progress import listening
    from cli.views.progress_state import EVALUATING, READING, WRITING
    from importer.evaluation.factors import measure_factors, write_factors
    from importer.evaluation.models import check_installed, loaded
    from importer.evaluation.outputs import compare_outputs
    from importer.evaluation.text import read_text
    from store.errors import UsageError

    if "" in (a, b):  # as of `"$UNSET"`: not the current directory
        raise UsageError("a side is empty, expected a model", code="E_USAGE")
    check_installed()
    content = read_text(text)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_store(store))
        sides = source_to_read(a, opened), source_to_read(b, opened)
        listen = stack.enter_context(listening(progress, (READING, WRITING, EVALUATING)))
        asked = setup(dtype, device, jobs)
        first, second = (
            stack.enter_context(loaded(side, opened, asked, listen)) for side in sides
        )
        length = context or min(first.context, second.context)
        some = tuple(sequences(one, content, length, limit) for one in (first, second))
        cut = some[0], some[1]
        found = compare_outputs(first, second, content, cut, listen)
        factors = None
        if sensitivity is not None:
            factors = measure_factors(first, second, content, cut, listen)
            write_factors(sensitivity, factors)
    names = str(sides[0]), str(sides[1])
    if json:
        out_json("eval", eval_document(names, content.name, found, factors))
    else:
        out(eval_lines(names, found))
        if sensitivity is not None and factors is not None:
            out(factor_lines(sensitivity, factors))
