"""Arguments and flags of the commands that run models."""

from __future__ import annotations

from enum import StrEnum, unique
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.panels import RESOURCES

if TYPE_CHECKING:
    from importer.evaluation.models import LoadedModel, Setup
    from importer.evaluation.text import Sequences, Text


@unique
class Compute(StrEnum):
    """What models compute in."""

    F32 = "f32"
    BF16 = "bf16"
    F16 = "f16"


TextOpt = Annotated[
    Path,
    typer.Option(
        "--text",
        metavar="FILE",
        help="UTF-8. A language model reads it in windows, an encoder line by line.",
        show_default=False,
    ),
]
ContextOpt = Annotated[
    int | None,
    typer.Option(
        "--context",
        metavar="N",
        min=2,
        help="Tokens that the model reads at once; by default 512, or as many as it can.",
    ),
]
LimitOpt = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Read so many windows or lines at most."),
]
ComputeOpt = Annotated[
    Compute,
    typer.Option(
        "--dtype",
        help="What to compute in; bf16 and f16 take half the memory and disk of f32.",
        rich_help_panel=RESOURCES,
    ),
]
DeviceOpt = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="As torch calls it: cpu, cuda, mps; by default a GPU of CUDA where there is one.",
        rich_help_panel=RESOURCES,
    ),
]


def setup(dtype: Compute, device: str | None, jobs: int | None) -> Setup:
    """Return how models are run."""
    from cli.commands.options import threads
    from importer.evaluation.models import Setup

    return Setup(dtype.value.upper(), device or "", threads(jobs))


def sequences(
    loaded: LoadedModel, text: Text, context: int | None, limit: int | None
) -> Sequences:
    """Return a text as a model reads it."""
    from importer.evaluation.text import lines, windows

    cut = windows if loaded.is_causal else lines
    return cut(text, loaded.tokenizer, context or loaded.context, limit)
