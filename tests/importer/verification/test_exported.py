"""`verify --export`: every kind of export agrees, and every change in one is found."""

from __future__ import annotations

import json

import pytest

from importer.recipes.options import parse_options
from importer.sources.location import StoredModel
from importer.verification.exported import compare_export
from store import ModelName, Store
from store.errors import InputError, NotFoundError, UnsupportedError
from tests.importer.builders import MODELS, create, model
from tests.importer.exports.exporting import export, header_of, tree
from tests.importer.exports.mlx_checkpoints import checkpoint

M = ModelName.parse("m")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def findings(store, place):
    return [
        (one.subject, one.message)
        for one in compare_export(store, StoredModel(M), place).findings
    ]


WAYS = {
    "hf": ("hf", {}),
    "hf in shards": ("hf", {"shard_size": 30_000}),
    "hf F32": ("hf", {"dtype": "F32"}),
    "hf F16": ("hf", {"dtype": "F16"}),
    "mlx": ("mlx", {}),
    "mlx in shards": ("mlx", {"shard_size": 30_000}),
    "mlx int4": ("mlx", {"q": "int4"}),
    "mlx int6/128": ("mlx", {"q": "int6/128"}),
    "mlx mxfp8": ("mlx", {"q": "mxfp8"}),
    "mlx F16 int4": ("mlx", {"q": "int4", "dtype": "F16"}),
    "mlx mixed": ("mlx", {"recipe": "mixed_4_6"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_export_agrees_however_it_was_asked_for(store, tmp_path, way):
    to, asked = WAYS[way]
    create(store, checkpoint(tmp_path / "in", "qwen3_moe"))
    export(store, tmp_path / "out", to, **asked)

    assert findings(store, tmp_path / "out") == []


@pytest.mark.parametrize("to", ["hf", "mlx"])
@pytest.mark.parametrize("stacked", [False, True])
def test_an_export_of_a_quantized_model_agrees(store, tmp_path, to, stacked):
    source = checkpoint(tmp_path / "in", "qwen3_moe")
    create(store, source, recipe=parse_options("int4", recipe="mlx", stacked=stacked))
    export(store, tmp_path / "out", to)

    assert findings(store, tmp_path / "out") == []


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-pipeline", "single-file"])
def test_an_export_of_a_fixture_agrees(store, tmp_path, name):
    create(store, MODELS / name)
    export(store, tmp_path / "out", "hf", shard_size=20_000)

    compared = compare_export(store, StoredModel(M), tmp_path / "out")

    assert compared.findings == ()
    assert compared.tensors > 10


@pytest.mark.parametrize("asked", [None, "int8"])
def test_every_byte_of_weights_counts(store, tmp_path, asked):
    """The first and the last byte of each array, in turn."""
    create(store, checkpoint(tmp_path / "in", "llama"), recipe=parse_options(asked))
    export(store, tmp_path / "out", "mlx")
    path = tmp_path / "out" / "model.safetensors"
    header, start, data = header_of(path)
    names = [name for name in header if "layers.1." in name and name != "__metadata__"]
    for name in names[::3]:
        begin, end = header[name]["data_offsets"]
        for offset in (start + begin, start + end - 1):
            rotten = bytearray(data)
            rotten[offset] ^= 1
            path.write_bytes(rotten)
            stem = name.rpartition(".")[0]
            assert [one[0] for one in findings(store, tmp_path / "out")] == [f"{stem}.weight"]
    path.write_bytes(data)
    assert findings(store, tmp_path / "out") == []


def _drop(name):
    return lambda out: (out / name).unlink()


def _write(name, content):
    return lambda out: (out / name).write_bytes(content)


def _index(out):
    path = out / "model.safetensors.index.json"
    document = json.loads(path.read_bytes())
    document["weight_map"].popitem()
    path.write_text(json.dumps(document))


CHANGES = {
    "a kept file is gone": (_drop("generation_config.json"), "generation_config.json"),
    "a kept file has another size": (
        _write("generation_config.json", b"{}"),
        "generation_config.json",
    ),
    "the configuration": (_write("config.json", b"{}"), "config.json"),
    "one file too many": (_write("more.txt", b"x"), "more.txt"),
    "the index lacks an array": (_index, "model.safetensors.index.json"),
    "the index is not JSON": (
        _write("model.safetensors.index.json", b"{"),
        "model.safetensors.index.json",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_and_named(store, tmp_path, change):
    create(store, checkpoint(tmp_path / "in", "llama"))
    export(store, tmp_path / "out", "mlx", q="int4", shard_size=30_000)
    act, subject = CHANGES[change]
    before = tree(tmp_path / "out")
    act(tmp_path / "out")
    assert tree(tmp_path / "out") != before

    assert subject in {found for found, _ in findings(store, tmp_path / "out")}


def test_an_export_of_another_model_differs(store, tmp_path):
    create(store, checkpoint(tmp_path / "a", "llama"))
    create(store, checkpoint(tmp_path / "b", "mixtral"), "other")
    export(store, tmp_path / "out", name="other")

    found = dict(findings(store, tmp_path / "out"))

    assert "is a tensor that the export lacks" in found.values()
    assert "is a tensor that the model does not give" in found.values()


def test_what_is_no_export_is_an_error(store, tmp_path):
    create(store, model(tmp_path / "in"))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"short")

    with pytest.raises(NotFoundError):
        findings(store, tmp_path / "nowhere")
    with pytest.raises((InputError, UnsupportedError)):
        findings(store, tmp_path / "bad")
