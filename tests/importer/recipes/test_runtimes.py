"""What Ollama does not run is known before it is written."""

from __future__ import annotations

import pytest

from importer.recipes.options import parse_options
from importer.recipes.runtimes import ARCHITECTURES, STACKED_ONLY, TYPES, Obstacle, runs_in
from importer.sources.classification import Classification, SourceKind


def facts(architecture, family=""):
    return Classification(SourceKind.MODEL, architecture, family, None, None, None, ())


def ask(architecture="LlamaForCausalLM", kind="model", types=(), **changes):
    return runs_in(
        architecture,
        kind,
        types,
        **({"prequantized": None, "has_packed_experts": False} | changes),
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_known_architecture_runs_in_the_types_of_the_runner(architecture):
    assert ask(architecture, types=TYPES) == (ARCHITECTURES[architecture], ())


@pytest.mark.parametrize(
    ("changes", "obstacles"),
    [
        ({"types": ["int4", "int3", "int3", "int2"]},
         [(Obstacle.TYPE, "int2"), (Obstacle.TYPE, "int3")]),
        ({"prequantized": "gptq"}, [(Obstacle.PREQUANTIZED, "gptq")]),
        ({"kind": "pipeline", "architecture": "FluxPipeline"},
         [(Obstacle.PIPELINE, "0.32.5")]),
        ({"architecture": "BertModel"}, [(Obstacle.ARCHITECTURE, "BertModel")]),
        ({"architecture": "Cohere2MoeForCausalLM", "has_packed_experts": True},
         [(Obstacle.PACKED, "Cohere2MoeForCausalLM")]),
    ],
)  # fmt: skip
def test_what_keeps_ollama_from_running_a_model_is_said(changes, obstacles):
    assert ask(**changes) == ("", tuple(obstacles))


def test_packed_experts_run_where_the_loader_reads_them():
    assert ask("Glm4MoeLiteForCausalLM", has_packed_experts=True).version


@pytest.mark.parametrize("architecture", sorted(STACKED_ONLY))
def test_experts_are_stacked_where_the_loader_wants_that(architecture):
    assert parse_options("int4").resolve(facts(architecture)).stacked
    assert parse_options().resolve(facts(architecture)).stacked
    assert parse_options().resolve(facts("", architecture)).stacked
    assert not parse_options(stacked=False).resolve(facts(architecture)).stacked


def test_experts_are_packed_elsewhere_but_by_the_recipe_of_ollama():
    assert not parse_options("int4").resolve(facts("LlamaForCausalLM")).stacked
    assert parse_options("int4", recipe="ollama").resolve(facts("LlamaForCausalLM")).stacked
    packed = parse_options("int4", recipe="ollama", stacked=False)
    assert not packed.resolve(facts("LlamaForCausalLM")).stacked
