"""What which Ollama loads: a table of what was measured, and of what its loaders register.

Versions are the first releases whose `x/models` registers the architecture; what Ollama does
with types, packed experts and arrays of other programs was found by running 0.33.0-rc2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum, unique
from typing import Final, NamedTuple

FIRST: Final = "0.19.0"
"""The first Ollama whose import writes such models; it names itself in their configuration."""

ARCHITECTURES: Final[Mapping[str, str]] = {
    "Cohere2MoeForCausalLM": "0.30.10",
    "GLM4MoeLite": FIRST,
    "Gemma3ForCausalLM": FIRST,
    "Gemma3ForConditionalGeneration": FIRST,
    "Gemma4ForCausalLM": "0.21.0",
    "Gemma4ForConditionalGeneration": "0.21.0",
    "Gemma4UnifiedForCausalLM": "0.30.3",
    "Gemma4UnifiedForConditionalGeneration": "0.30.3",
    "Glm4MoeLiteForCausalLM": FIRST,
    "LagunaForCausalLM": "0.22.1",
    "LlamaForCausalLM": FIRST,
    "MuseGlimmerForConditionalGeneration": "0.32.8",
    "NemotronHForCausalLM": "0.32.9",
    "NemotronH_Nano_Omni_Reasoning_V3": "0.32.9",
    "NemotronH_Nano_VL_V2": "0.32.9",
    "Qwen3ForCausalLM": FIRST,
    "Qwen3NextForCausalLM": FIRST,
    "Qwen3NextForConditionalGeneration": FIRST,
    "Qwen3NextMoeForCausalLM": FIRST,
    "Qwen3NextMoeForConditionalGeneration": FIRST,
    "Qwen3_5ForCausalLM": FIRST,
    "Qwen3_5ForConditionalGeneration": FIRST,
    "Qwen3_5MoeForCausalLM": FIRST,
    "Qwen3_5MoeForConditionalGeneration": FIRST,
    "gemma4_unified": "0.30.3",
}
"""The architectures that Ollama runs from tensors, and since which version."""

STACKED_ONLY: Final = frozenset({"Cohere2MoeForCausalLM"})
"""Those whose loader wants one tensor for all experts of a projection."""

TYPES: Final = ("int4", "int8", "nvfp4", "mxfp4", "mxfp8")
"""The types that its runner computes with; it takes every other for int8 and then panics."""

LAST_WITH_IMAGES: Final = "0.32.5"
"""Image generation was removed in 0.32.6."""


@unique
class Obstacle(StrEnum):
    """Why Ollama does not run a model."""

    TYPE = "type"
    PACKED = "packed"
    PREQUANTIZED = "prequantized"
    PIPELINE = "pipeline"
    ARCHITECTURE = "architecture"


class RunsIn(NamedTuple):
    """Which Ollama runs a model.

    Attributes:
        version: the first that does; empty where none does.
        obstacles: why none does, each with what it is about, such as the type.
    """

    version: str
    obstacles: tuple[tuple[Obstacle, str], ...] = ()


def runs_in(
    architecture: str,
    kind: str,
    types: Iterable[str],
    *,
    prequantized: str | None,
    has_packed_experts: bool,
) -> RunsIn:
    """Tell which Ollama runs a model of tensors.

    Args:
        architecture: the class that the configuration names, else its `model_type`.
        kind: `model`, `pipeline` or `sentence`.
        types: the quantization types of its tensors.
        prequantized: the scheme whose arrays are kept as they came, or None.
        has_packed_experts: whether each expert keeps tensors of its own.
    """
    found: list[tuple[Obstacle, str]] = []
    if kind == "pipeline":
        found.append((Obstacle.PIPELINE, LAST_WITH_IMAGES))
    elif architecture not in ARCHITECTURES:
        found.append((Obstacle.ARCHITECTURE, architecture))
    if prequantized is not None:
        found.append((Obstacle.PREQUANTIZED, prequantized))
    found += ((Obstacle.TYPE, one) for one in sorted({*types} - {*TYPES}))
    if has_packed_experts and architecture in STACKED_ONLY:
        found.append((Obstacle.PACKED, architecture))
    return RunsIn("" if found else ARCHITECTURES[architecture], tuple(found))
