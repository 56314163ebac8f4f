"""Options that decide which tensor gets which type."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Annotated

import typer

from cli.panels import BUDGET, TYPES


@unique
class Experts(StrEnum):
    """How experts are stored."""

    PACKED = "packed"
    STACKED = "stacked"


@unique
class Calibrate(StrEnum):
    """How scales are found."""

    MINMAX = "minmax"
    MSE = "mse"
    PERCENTILE = "percentile"


@unique
class OnMisaligned(StrEnum):
    """What becomes of a tensor that groups do not fit; `Misaligned` takes longer to import."""

    KEEP = "keep"
    ADJUST = "adjust"
    ERROR = "error"


QuantizeOpt = Annotated[
    str | None,
    typer.Option(
        "--quantize",
        "-q",
        metavar="TYPE",
        help="Quantize to int2, int3, int4, int5, int6, int8, nvfp4, mxfp4 or mxfp8; "
        "f32, bf16 and f16 decode and round; repack keeps codes and values.",
        rich_help_panel=TYPES,
    ),
]
GroupSizeOpt = Annotated[
    int | None,
    typer.Option(
        "--group-size",
        metavar="N",
        help="Group size of an int type: 32, 64 or 128.",
        rich_help_panel=TYPES,
    ),
]
CalibrateOpt = Annotated[
    Calibrate | None,
    typer.Option(
        help="How scales are found: minmax as MLX does, bit for bit; mse, those of the "
        "least squared error; percentile, which clips the last 1% at each end. The same "
        "programs read them all.",
    ),
]
ImatrixOpt = Annotated[
    str | None,
    typer.Option(
        "--imatrix",
        metavar="FILE",
        help="Search for scales by the importance of columns, which `ingot imatrix` or "
        "llama-imatrix measured; --calibrate mse comes with it.",
        rich_help_panel=TYPES,
    ),
]
SymmetricOpt = Annotated[
    bool,
    typer.Option(
        "--symmetric",
        help="Give int types a bias of -2^(bits-1) times the scale, for readers that have "
        "no bias of their own.",
    ),
]
RecipeOpt = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="Decide which tensors get which type: default, uniform, linears, ollama, "
        "mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6, mlx, downcast, repack, or a TOML file.",
        rich_help_panel=TYPES,
    ),
]
RuleOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="GLOB=TYPE[/GROUP]",
        help="Give the tensors that GLOB matches a type, or `keep` them, whatever the "
        "recipe says. May be repeated.",
        rich_help_panel=TYPES,
    ),
]
EmbeddingOpt = Annotated[
    str | None,
    typer.Option(
        "--embedding", metavar="TYPE", help="Type of the embeddings.", rich_help_panel=TYPES
    ),
]
LmHeadOpt = Annotated[
    str | None,
    typer.Option(
        "--lm-head", metavar="TYPE", help="Type of the output layer.", rich_help_panel=TYPES
    ),
]
VisionOpt = Annotated[
    str | None,
    typer.Option(
        "--vision", metavar="TYPE", help="Type of the vision tower.", rich_help_panel=TYPES
    ),
]
ExpertsOpt = Annotated[
    Experts | None,
    typer.Option(
        help="Store a tensor for each expert, or one for all experts of a projection.",
        rich_help_panel=TYPES,
    ),
]
OnMisalignedOpt = Annotated[
    OnMisaligned | None,
    typer.Option(
        "--on-misaligned",
        metavar="WHAT",
        help="What to do with a tensor that groups do not fit: keep it, adjust the group "
        "size, or stop with an error.",
        rich_help_panel=TYPES,
    ),
]
TargetSizeOpt = Annotated[
    str | None,
    typer.Option(
        "--target-size",
        metavar="SIZE",
        help="Choose types so that the whole model has at most so many bytes, such as 5GB or "
        "4.5GiB, and as little is lost as can be.",
        rich_help_panel=BUDGET,
    ),
]
TargetBpwOpt = Annotated[
    str | None,
    typer.Option(
        "--target-bpw",
        metavar="BITS",
        help="Choose types so that the weights have at most so many bits each, such as 4.5.",
        rich_help_panel=BUDGET,
    ),
]
AllowOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="TYPE[/GROUP],...",
        help="The types to choose from. Without it int3 to int8 in groups of 32, 64 and 128, "
        "bf16, and `keep`.",
        rich_help_panel=BUDGET,
    ),
]
SensitivityOpt = Annotated[
    str | None,
    typer.Option(
        "--sensitivity",
        metavar="FILE",
        help="JSON that says how much the error of a tensor matters, by name or glob; also "
        "what mlx_lm.dynamic_quant writes.",
        rich_help_panel=BUDGET,
    ),
]
