"""`ingot imatrix` and `ingot eval`, as far as they come where torch is not installed.

tests/zoo/check_evaluation.py judges what they compute.
"""

from __future__ import annotations

import importlib.util
import re

import pytest

from cli.views.evaluation import eval_document, eval_lines, factor_lines, imatrix_lines
from importer.evaluation.factors import _key, write_factors
from importer.evaluation.importance import Measured
from importer.evaluation.outputs import Comparison, Cosine, Divergence
from importer.evaluation.text import Sequences
from importer.recipes.sensitivity import read_sensitivity
from tests.cli.runner import run
from tests.importer.builders import MODELS

LLAMA = MODELS / "tiny-llama"
CAUSAL = Comparison(
    True,
    2,
    9,
    5,
    (10.0, 11.0),
    Divergence(0.1, 0.2, float("inf")),
    0.75,
    Cosine(0.9, 0.8),
    None,
)
ENCODER = CAUSAL._replace(
    is_causal=False,
    perplexity=None,
    divergence=None,
    agreement=None,
    embedding=Cosine(0.99, 0.97),
)


def table(found):
    return [re.sub(r" {2,}", "|", line) for line in eval_lines(("a", "b"), found)]


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is there")
@pytest.mark.parametrize("words", [("imatrix", LLAMA), ("eval", LLAMA, LLAMA)])
def test_without_torch_the_extra_is_named(store, tmp_path, words):
    text = tmp_path / "text"
    text.write_text("hello")

    outcome = run(*words, "--text", text, store=store)

    said = outcome.failed(4)
    assert "needs `torch` and `transformers`, and neither is installed" in said
    assert "pip install '.[torch]'" in said
    assert not store.exists()


@pytest.mark.parametrize("words", [("imatrix", LLAMA), ("eval", LLAMA, LLAMA)])
def test_there_is_no_measure_without_a_text(store, words):
    assert "--text" in run(*words, store=store).failed(2)


def test_language_models_have_perplexity_and_divergence():
    lines = table(CAUSAL)

    assert "perplexity|10.0000|11.0000|+10.00%" in lines
    assert "KL divergence, mean|0.100000" in lines
    assert "top-1 agreement|75.00%" in lines
    assert not any("embedding" in line for line in lines)


def test_encoders_have_embeddings():
    lines = table(ENCODER)

    assert "embedding, 1 - cosine, mean|0.010000" in lines
    assert not any("perplexity" in line for line in lines)


def test_what_is_not_a_number_is_null_in_json():
    found = eval_document(("a", "b"), "text", CAUSAL)["kl_divergence"]

    assert found == {"mean": 0.1, "p99": 0.2, "max": None}


def test_what_was_not_measured_is_told(tmp_path):
    sequences = Sequences(((1, 2),), 2)

    told = "\n".join(imatrix_lines(tmp_path, sequences, Measured(3, 2, ("a.weight",), 1)))

    assert "went on after 1 sequence" in told
    assert "never reached: 2 experts" in told
    assert "a.weight" in told


def test_one_matrix_that_was_not_reached_is_told_as_one(tmp_path):
    told = imatrix_lines(tmp_path, Sequences(((1, 2),), 2), Measured(3, 1, (), 0))

    assert "never reached: 1 expert or other matrix of stacks" in told


EXPERTS = {f"model.layers.0.mlp.experts.{n}.up_proj.weight" for n in range(3)}


@pytest.mark.parametrize(
    ("name", "dimensions", "tensors", "key"),
    [
        ("a.weight", 2, {"a.weight", "b.a.weight"}, "a.weight"),
        ("layer.1.weight", 2, {"bert.layer.1.weight"}, "bert.layer.1.weight"),
        ("model.layer.1.weight", 2, {"layer.1.weight"}, "layer.1.weight"),
        ("layer.1.weight", 2, {"a.layer.1.weight", "b.layer.1.weight"}, "layer.1.weight"),
        (
            "model.layers.0.mlp.experts.gate_up_proj",
            3,
            EXPERTS,
            "*model.layers.0.mlp.experts.*",
        ),
    ],
)
def test_a_factor_is_of_the_name_that_a_plan_has(name, dimensions, tensors, key):
    assert _key(name, dimensions, tensors) == key


def test_factors_are_written_as_they_are_read(tmp_path):
    stack = "*model.layers.0.mlp.experts.*"
    write_factors(tmp_path / "f.json", {"a.weight": 2.5, stack: 0.125})

    found = read_sensitivity(str(tmp_path / "f.json"))

    names = ["a.weight", *EXPERTS]
    assert found.of(names) == {"a.weight": 2.5, **dict.fromkeys(EXPERTS, 0.125)}
    assert not found.is_relative
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"]


def test_the_largest_factors_are_shown(tmp_path):
    factors = {f"w{number}": float(number) for number in range(1, 13)}

    _, head, *lines = factor_lines(tmp_path, factors)

    assert "12 factors" in head
    assert [line.split()[0] for line in lines] == [f"w{n}" for n in range(12, 2, -1)]
    assert eval_document(("a", "b"), "text", CAUSAL, factors)["factors"] == factors
    assert eval_document(("a", "b"), "text", CAUSAL)["factors"] is None
