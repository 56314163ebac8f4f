"""`create` notes what Ollama cannot run, and `show` says which Ollama runs a model."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.cli.runner import run
from tests.importer.builders import MODELS, model
from tests.importer.formats.gguf.builders import GOOD as GGUF

LLAMA = MODELS / "tiny-llama"
EXPERTS = {
    f"model.layers.0.mlp.experts.{n}.up_proj.weight": ("BF16", (32, 64)) for n in range(3)
}


def moe(path, architecture):
    return model(path, EXPERTS, config={"architectures": [architecture], "model_type": "x"})


def test_a_model_that_runs_says_since_when(store):
    made = run("create", "m", LLAMA, store=store).succeeded()

    assert "Ollama" not in made.stderr
    assert "runs in             Ollama 0.19.0 and later" in run("show", "m", store=store).stdout


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_a_type_that_the_runner_lacks_is_told_with_one_that_helps(store, words):
    made = run("create", "m", LLAMA, "-q", "int3", *words, store=store).succeeded()

    text = made.stdout + made.stderr
    (line,) = [line for line in text.split("\n") if "runs in no Ollama: " in line]
    assert line.startswith("runs" if words else "note: runs")
    assert "its runner does not support int3" in line
    assert "(it has int4, int8, nvfp4, mxfp4 and mxfp8)" in line


def test_experts_are_stacked_where_ollama_wants_that_and_the_plan_says_so(store, tmp_path):
    source = moe(tmp_path / "s", "Cohere2MoeForCausalLM")

    plan = run("create", "m", source, "--dry-run", store=store).succeeded()
    assert (
        "experts are stacked: Ollama reads nothing else of Cohere2MoeForCausalLM" in plan.stdout
    )
    assert "runs in Ollama 0.30.10 and later" in plan.stdout
    told = run("create", "m", source, "--dry-run", "--json", store=store).document
    assert told["experts"] == "stacked"
    assert told["runs_in"] == {"ollama": "0.30.10", "obstacles": []}

    run("create", "m", source, store=store).succeeded()
    layers = run("show", "m", "--json", store=store).document["layers"]
    assert "model.layers.0.mlp.experts" in [layer.get("name") for layer in layers]


def test_packed_experts_that_ollama_does_not_read_are_told(store, tmp_path):
    source = moe(tmp_path / "s", "Cohere2MoeForCausalLM")

    made = run("create", "m", source, "--experts", "packed", store=store).succeeded()

    assert "wants experts stacked (`--experts stacked` helps)" in made.stderr
    assert "wants experts stacked" in run("show", "m", store=store).stdout
    found = run("show", "m", "--json", store=store).document["runs_in"]
    assert found == {
        "ollama": None,
        "obstacles": [{"kind": "packed", "what": "Cohere2MoeForCausalLM"}],
    }


def test_an_architecture_that_ollama_lacks_is_noted_and_shown(store, tmp_path):
    source = moe(tmp_path / "s", "BertModel")

    made = run("create", "m", source, store=store).succeeded()

    why = "no Ollama: it cannot run BertModel from tensors, though it may from a GGUF file"
    assert f"note: runs in {why}\n" in made.stderr
    assert why in run("show", "m", store=store).stdout


def test_an_architecture_and_a_type_that_ollama_lacks_are_both_noted(store, tmp_path):
    source = shutil.copytree(LLAMA, tmp_path / "s")
    config = json.loads((source / "config.json").read_bytes())
    named = config | {"architectures": ["BertModel"]}
    (source / "config.json").write_text(json.dumps(named))

    made = run("create", "m", source, "-q", "int3", "--json", store=store).document
    told = run("create", "m", source, "-q", "int3", store=store).succeeded().stderr

    kinds = [one["kind"] for one in made["runs_in"]["obstacles"]]
    assert kinds == ["architecture", "type"]
    assert "BertModel from tensors" in told
    assert "its runner does not support int3\n" in told


def test_types_that_ollama_lacks_are_one_list(store):
    rules = ["--rule", "lm_head.weight=int5"]
    run("create", "m", LLAMA, "-q", "int3", *rules, store=store).succeeded()

    told = run("show", "m", store=store).stdout

    assert "no Ollama: its runner does not support int3 and int5\n" in told


def test_a_pipeline_is_told_to_make_no_images_any_more(store):
    made = run("create", "m", MODELS / "tiny-pipeline", store=store).succeeded()

    assert "0.32.5 was the last version that made images" in made.stderr


def test_a_hostile_architecture_is_printable(store, tmp_path):
    source = moe(tmp_path / "s", "\x1b[2J")

    run("create", "m", source, store=store).succeeded()

    assert "\x1b" not in run("show", "m", store=store).stdout
    assert json.dumps(run("show", "m", "--json", store=store).document)


def test_types_that_were_chosen_for_a_size_are_allowed_otherwise(store):
    words = ("--target-bpw", "7.3", "--allow", "int6/64,int8/64")
    made = run("create", "m", LLAMA, *words, store=store).succeeded()

    (line,) = [line for line in made.stderr.split("\n") if "in no Ollama: " in line]
    assert "`--allow int4/64,int8/64` helps" in line


def test_a_gguf_file_runs_in_what_loads_such_files(store, tmp_path):
    (tmp_path / "x.gguf").write_bytes(GGUF)
    run("create", "m", tmp_path / "x.gguf", store=store).succeeded()

    shown = run("show", "m", store=store).succeeded()
    assert "programs that load GGUF files, such as Ollama and llama.cpp" in shown.stdout
    assert run("show", "m", "--json", store=store).document["runs_in"] is None
