"""The file that llama.cpp sees with: what its converter writes with `--mmproj`."""

from __future__ import annotations

import hashlib
import json

import pytest

from importer.formats.gguf.metadata import Value
from importer.sources.containers.gguf import read_file_header
from importer.sources.file import find
from store import Store
from store.errors import InputError, UnsupportedError
from tests.importer.builders import REPOSITORY, create
from tests.importer.exports import gguf_checkpoints
from tests.importer.exports.exporting import export, planned
from tests.importer.exports.gguf_vision import MODELS, TYPES, checkpoint

GOLDEN = json.loads((REPOSITORY / "fixtures" / "gguf" / "golden.json").read_bytes())


def changed(directory, path, **values):
    """Change keys of a JSON file."""
    document = json.loads((directory / path).read_bytes()) | values
    (directory / path).write_text(json.dumps(document))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", MODELS)
def test_a_projector_is_the_file_that_llama_cpp_writes(tmp_path, name, kind):
    source = checkpoint(tmp_path / "in", name)

    export(None, tmp_path / "out", "gguf", source=source, q=kind, projector=True)

    assert {one.name for one in (tmp_path / "out").iterdir()} == {"in.gguf", "mmproj-in.gguf"}
    found = hashlib.sha256((tmp_path / "out" / "mmproj-in.gguf").read_bytes()).hexdigest()
    assert found == GOLDEN["projectors"][name][kind]


def test_a_mixture_leaves_the_projector_in_the_type_of_the_source(tmp_path):
    source = checkpoint(tmp_path / "in", "gemma3")

    export(None, tmp_path / "out", "gguf", source=source, q="q4_0", projector=True)

    found = hashlib.sha256((tmp_path / "out" / "mmproj-in.gguf").read_bytes()).hexdigest()
    assert found == GOLDEN["projectors"]["gemma3"]["bf16"]
    header = read_file_header(find("in.gguf", tmp_path / "out" / "in.gguf"))
    assert header.metadata["general.file_type"] == Value("u32", 2)


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_gives_the_same_files_and_a_split_goes_with_them(tmp_path, name):
    source = checkpoint(tmp_path / "m", name)
    with Store(tmp_path / "store") as store:
        store.fs.is_durable = False
        create(store, source)
        asked = {"q": "f16", "projector": True, "shard_size": 50_000}
        export(None, tmp_path / "a", "gguf", source=source, **asked)
        export(store, tmp_path / "b", "gguf", **asked)

    projector = "mmproj-m.gguf"
    names = sorted(one.name for one in (tmp_path / "a").iterdir())
    assert names == sorted(one.name for one in (tmp_path / "b").iterdir())
    assert len(names) > 2
    # The rest is in another order: that of one file, where the source has two.
    assert (tmp_path / "a" / projector).read_bytes() == (
        tmp_path / "b" / projector
    ).read_bytes()


def test_without_it_the_plan_says_what_is_lost(tmp_path):
    source = checkpoint(tmp_path / "in", "pixtral")

    write = export(None, tmp_path / "out.gguf", "gguf", source=source)

    (line,) = write.lossy
    assert line.startswith("33 tensors are not of the text model")
    with pytest.raises(InputError, match="33 tensors"):
        planned(None, tmp_path / "strict.gguf", "gguf", source=source, strict=True)


def test_a_model_that_does_not_see_has_no_projector(tmp_path):
    source = gguf_checkpoints.checkpoint(tmp_path / "in", "llama")

    with pytest.raises(UnsupportedError, match="vision_config"):
        planned(None, tmp_path / "out", "gguf", source=source, projector=True)


def test_a_tower_that_is_not_known_is_named(tmp_path):
    source = checkpoint(tmp_path / "in", "pixtral")
    changed(source, "config.json", vision_config={"model_type": "clip_vision_model"})

    with pytest.raises(UnsupportedError, match="clip_vision_model"):
        planned(None, tmp_path / "out", "gguf", source=source, projector=True)


@pytest.mark.parametrize(
    "lie",
    [
        {"num_hidden_layers": "many"},
        {"image_size": 0},
        {"num_attention_heads": 7},
        {"hidden_act": "relu"},
        {"layer_norm_eps": "small"},
    ],
)
def test_a_tower_that_lies_is_an_error(tmp_path, lie):
    source = checkpoint(tmp_path / "in", "pixtral")
    config = json.loads((source / "config.json").read_bytes())
    changed(source, "config.json", vision_config=config["vision_config"] | lie)

    with pytest.raises(InputError):
        planned(None, tmp_path / "out", "gguf", source=source, projector=True)


@pytest.mark.parametrize(
    "lie",
    [
        {"image_mean": None},
        {"image_mean": [1, 2]},
        {"image_std": ["a", 1, 2]},
        {"image_seq_length": 0},
        {"image_seq_length": "x"},
    ],
)
def test_a_preprocessor_that_lies_is_an_error(tmp_path, lie):
    source = checkpoint(tmp_path / "in", "gemma3")
    changed(source, "preprocessor_config.json", **lie)

    with pytest.raises(InputError, match="image_"):
        planned(None, tmp_path / "out", "gguf", source=source, projector=True)
