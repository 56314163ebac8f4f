"""Directories beside each other: the components of a pipeline, or models that nothing joins."""

from __future__ import annotations

import pytest

from importer.sources.classification import SourceKind, classify
from importer.sources.inventory import read_inventory
from store.errors import InputError
from tests.importer.builders import safetensors, write

W = safetensors({"w.weight": ("F32", (2,))})
LLAMA = {"architectures": ["LlamaForCausalLM"]}
CLIP = {"architectures": ["CLIPTextModel"]}


def directories(tmp_path, configs, **beside):
    files = {f"{name}/model.safetensors": W for name in configs}
    files |= {f"{name}/config.json": config for name, config in configs.items() if config}
    return write(tmp_path, files | {f"{name}.json": text for name, text in beside.items()})


def test_two_models_are_refused_by_name(tmp_path):
    directories(tmp_path, {"llama": LLAMA, "mixtral": LLAMA})

    with pytest.raises(InputError, match=r"2 models, .*: `llama`, `mixtral`$") as caught:
        read_inventory(tmp_path)

    assert caught.value.code == "E_SRC_AMBIGUOUS"
    assert "Name the directory" in str(caught.value.hint)


def test_many_models_are_counted(tmp_path):
    directories(tmp_path, {f"m{number:02}": LLAMA for number in range(12)})

    with pytest.raises(InputError, match=r"^12 models, .*`m09` and 2 more$"):
        read_inventory(tmp_path)


@pytest.mark.parametrize(
    "configs",
    [
        pytest.param({"text_encoder": CLIP, "vae": {"_class_name": "V"}}, id="of diffusers"),
        pytest.param({"text_encoder": CLIP, "text_encoder_2": CLIP}, id="named as parts"),
        pytest.param({"llm": LLAMA, "codec": None}, id="without a configuration"),
    ],
)
def test_components_are_a_pipeline_without_an_index(tmp_path, configs):
    found = read_inventory(directories(tmp_path, configs))

    assert found.components == tuple(sorted(configs))
    assert classify(found).kind is SourceKind.PIPELINE


@pytest.mark.parametrize("other", [LLAMA, None], ids=["a model", "weights"])
def test_a_pipeline_is_not_a_component(tmp_path, other):
    directories(tmp_path, {"llama": other, "sd/text_encoder": CLIP, "sd/vae": None})
    write(tmp_path, {"sd/model_index.json": {"_class_name": "P"}})

    with pytest.raises(InputError, match=r"^2 models, .*: `llama`, `sd`$"):
        read_inventory(tmp_path)


def test_a_pipeline_in_a_directory_is_read(tmp_path):
    directories(tmp_path, {"sd/text_encoder": CLIP, "sd/vae": None})
    write(tmp_path, {"sd/model_index.json": {"_class_name": "P"}})

    assert read_inventory(tmp_path).components == ("sd/text_encoder", "sd/vae")


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"llm": LLAMA, "codec": None}, ["`codec`, `llm` are imported as the components of"]),
        ({"llm": LLAMA, "vae": None}, []),
        ({"a": None, "b": {"_class_name": "V"}}, []),
    ],
)
def test_what_nothing_calls_a_pipeline_is_said_to_be_taken_for_one(tmp_path, configs, said):
    notes = read_inventory(directories(tmp_path, configs)).notes

    assert [note.partition(" one model")[0] for note in notes] == said


@pytest.mark.parametrize("index", ["config", "model_index", "modules"])
def test_an_index_joins_models(tmp_path, index):
    directories(tmp_path, {"thinker": LLAMA, "talker": LLAMA}, **{index: {}})

    assert read_inventory(tmp_path).components == ("talker", "thinker")


def test_one_model_in_a_directory_is_read(tmp_path):
    assert read_inventory(directories(tmp_path, {"llama": LLAMA})).components == ("llama",)
