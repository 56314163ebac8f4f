"""The configuration is canonical: the same bytes from the same facts, and nothing else."""

from __future__ import annotations

import json

import pytest

from importer.models.config import config_bytes, file_type
from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from store import ModelName, Store
from tests.importer.builders import FIXTURES, MODELS, model, plan

# The order of Go's ConfigV2, then ours.
FIELDS = [
    "model_format",
    "model_family",
    "model_families",
    "model_type",
    "file_type",
    "renderer",
    "parser",
    "requires",
    "capabilities",
    "context_length",
    "embedding_length",
    "architecture",
    "os",
    "ingot",
]


def document(made):
    return json.loads(config_bytes(made))


def plan_of(source, tmp_path, variant=None):
    request = ImportRequest(ModelName.parse("x"), source, variant=variant)
    return plan_import(request, Store(tmp_path / "store"))


def test_the_bytes_are_these():
    made = plan(
        {"a.weight": ("BF16", (1000, 2)), "ids": ("I64", (3,))},
        config={"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4},
        files=(("config.json", 77),),
    )

    assert config_bytes(made) == (
        b'{"model_format":"safetensors","model_family":"llama","model_families":["llama"],'
        b'"model_type":"2.0K","file_type":"BF16","requires":"0.19.0",'
        b'"capabilities":["completion"],"embedding_length":4,"architecture":"","os":"",'
        b'"ingot":{"architecture":"LlamaForCausalLM","encoder":1,"files":['
        b'{"name":"config.json","size":77},{"name":"model.safetensors","size":0}],'
        b'"kind":"model","recipe":{"name":"plain","rule":[{"match":["*"],'
        b'"optional":true,"reason":"kept as it is","type":"keep"}]}}}'
    )


def test_the_bytes_of_a_model_of_which_nothing_is_known_are_these():
    assert config_bytes(plan({"a": ("F32", (2,))})) == (
        b'{"model_format":"safetensors","model_family":"","model_families":null,'
        b'"model_type":"2","file_type":"F32","requires":"0.19.0",'
        b'"capabilities":["completion"],"architecture":"","os":"",'
        b'"ingot":{"encoder":1,"files":[{"name":"model.safetensors","size":0}],'
        b'"kind":"model","recipe":{"name":"plain","rule":[{"match":["*"],'
        b'"optional":true,"reason":"kept as it is","type":"keep"}]}}}'
    )


@pytest.mark.parametrize("fixture", FIXTURES)
def test_fields_are_in_their_order(fixture, tmp_path):
    data = config_bytes(plan_of(MODELS / fixture, tmp_path))
    found = json.loads(data, parse_float=pytest.fail)

    assert list(found) == [field for field in FIELDS if field in found]
    assert list(found["ingot"]) == sorted(found["ingot"])
    assert [file["name"] for file in found["ingot"]["files"]] == sorted(
        file["name"] for file in found["ingot"]["files"]
    )
    assert not data.endswith(b"\n")
    assert b": " not in data


def test_no_path_of_this_machine_is_in_it(tmp_path):
    source = model(tmp_path / "some-directory")

    assert b"some-directory" not in config_bytes(plan_of(source, tmp_path))


def test_every_file_is_in_it_with_its_size(tmp_path):
    source = model(tmp_path / "m", tokenizer__model="123")
    found = read_inventory(source)

    files = document(plan_of(source, tmp_path))["ingot"]["files"]

    everything = (*found.weights, *found.files)
    assert {(file["name"], file["size"]) for file in files} == {
        (file.path, file.size) for file in everything
    }


def test_the_variant_is_in_it_when_one_was_asked_for(tmp_path):
    source = model(tmp_path / "m")
    (source / "model.fp16.safetensors").write_bytes((source / "model.safetensors").read_bytes())

    assert document(plan_of(source, tmp_path, "fp16"))["ingot"]["variant"] == "fp16"
    assert "variant" not in document(plan_of(source, tmp_path))["ingot"]


def test_the_components_of_a_pipeline_are_in_it(tmp_path):
    found = document(plan_of(MODELS / "tiny-pipeline", tmp_path))

    assert found["ingot"]["components"] == ["text_encoder", "transformer", "vae"]
    assert found["capabilities"] == ["completion", "image"]


def test_a_foreign_quantization_is_in_it():
    small = dict.fromkeys(("a.scales", "a.biases"), ("F16", (2, 1)))
    found = document(plan({"a.weight": ("U32", (2, 8)), **small}))

    assert found["ingot"]["prequantized"] == "mlx"
    assert (found["file_type"], found["model_type"]) == ("mlx", "")


def test_the_file_type_is_that_of_most_bytes():
    assert file_type(plan({"a": ("F32", (9,)), "b": ("BF16", (20,))})) == "BF16"
    assert file_type(plan({"a": ("F32", (9,)), "b": ("BF16", (18,))})) == "BF16"
    assert file_type(plan({"a": ("F32", (9,)), "b": ("BF16", (17,))})) == "F32"
    assert file_type(plan({"a": ("F32", (0,))})) == "F32"


@pytest.mark.parametrize(
    ("parameters", "human"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0K"),
        (91_211, "91.2K"),
        (22_713_216, "22.7M"),
        (137_000_000, "137M"),
        (8_030_261_248, "8.0B"),
        (671_026_419_200, "671B"),
        (1_040_000_000_000, "1.0T"),
    ],
)
def test_parameters_are_written_for_people(parameters, human):
    assert document(plan({"a": ("F8_E4M3", (parameters,))}))["model_type"] == human


def test_odd_words_of_a_configuration_are_escaped_as_go_does():
    made = plan(config={"architectures": ["<\x1b>"], "model_type": "a\u2028\u202e"})

    assert b'"model_family":"a\\u2028\xe2\x80\xae"' in config_bytes(made)
    assert b'"architecture":"\\u003c\\u001b\\u003e"' in config_bytes(made)
