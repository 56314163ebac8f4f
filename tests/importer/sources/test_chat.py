"""Parser, renderer and capabilities are those that Ollama's own create writes."""

from __future__ import annotations

import gzip
import json

import pytest

from importer.sources.chat import PARSERS, ChatTemplates, chat_of
from tests.importer.builders import MODELS

GOLDENS = MODELS.parent / "ollama" / "chat.jsonl.gz"
"""What Ollama fb3076099 (0.33.0-rc2) decided, run as a program."""


def cases():
    with gzip.open(GOLDENS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def templates_of(case):
    if case["template"] is None:
        return ChatTemplates()
    if case["template_file"] == "tokenizer_config.json":
        return ChatTemplates(tokenizer=case["template"])
    return ChatTemplates(jinja=case["template"])


def test_every_case_of_ollamas_is_ours():
    found, expected = [], []
    for case in cases():
        made = chat_of(case["config"], templates_of(case))
        found.append((case["config"], made.parser, made.renderer, list(made.capabilities)))
        kept = (case["parser"], case["renderer"], case["capabilities"])
        expected.append((case["config"], *kept))

    assert len(found) == 382
    assert found == expected


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, ("", "")),
        ({"architectures": "Qwen3ForCausalLM"}, ("", "")),
        ({"architectures": ["Qwen3ForCausalLM", 1]}, ("", "")),
        ({"architectures": ["Qwen3ForCausalLM"], "model_type": 3}, ("", "")),
        ({"architectures": ["Qwen3ForCausalLM"], "llm_config": []}, ("", "")),
        ({"architectures": None, "model_type": "qwen3"}, ("qwen3", "qwen3-coder")),
        ({"architectures": ["X"], "llm_config": {"model_type": "gemma4"}}, ("gemma4",) * 2),
        ({"architectures": ["LlamaForCausalLM", "Qwen3"]}, ("qwen3", "qwen3-coder")),
        ({"model_type": "muse_glimmer"}, ("glimmer", "glimmer")),
        ({"model_type": "muse_glimmer_x"}, ("", "")),
        ({"architectures": ["MuseGlimmerX"]}, ("glimmer", "glimmer")),
        ({"architectures": ["GemmaGlm4Gemma4"]}, ("glm-4.7", "gemma4")),
    ],
)
def test_names_come_from_the_configuration(config, names):
    made = chat_of(config, ChatTemplates())

    assert (made.parser, made.renderer) == names


@pytest.mark.parametrize(
    ("architecture", "templates", "names"),
    [
        ("Laguna", ChatTemplates("", "laguna_glm_thinking_v8"), ("poolside-v1",) * 2),
        ("Laguna", ChatTemplates("x", "laguna_glm_thinking_v8"), ("poolside-v1",) * 2),
        ("NemotronH", ChatTemplates("x", "{reasoning effort: efficient}"),
         ("nemotron-3.5-nano",) * 2),
        ("Qwen3_5", ChatTemplates("resolved_reasoning_effort preserve_thinking"),
         ("qwen3.5", "qwen3.8")),
        ("Qwen3_5", ChatTemplates("x", "resolved_reasoning_effort preserve_thinking"),
         ("qwen3.5", "qwen3.5")),
        ("Qwen3_5", ChatTemplates("preserve_thinking"), ("qwen3.5", "qwen3.5")),
    ],
)  # fmt: skip
def test_markers_of_a_template_tell_later_releases(architecture, templates, names):
    made = chat_of({"architectures": [architecture]}, templates)

    assert (made.parser, made.renderer) == names


def test_a_parser_that_was_asked_for_tells_what_the_model_can_do():
    made = chat_of({"architectures": ["BertModel"]}, ChatTemplates(), "qwen3-thinking")

    assert made.parser == "qwen3-thinking"
    assert made.renderer == ""
    assert made.capabilities == ("completion", "tools", "thinking")


def test_a_parser_that_ollama_does_not_have_can_do_nothing():
    assert chat_of({}, ChatTemplates(), "x").capabilities == ("completion",)


def test_the_parsers_are_sorted():
    assert list(PARSERS) == sorted(PARSERS)
