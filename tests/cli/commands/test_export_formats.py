"""What each format promises: compared to the bit, whole or not there, no loss unsaid."""

from __future__ import annotations

import json
import math
import signal
import struct
import subprocess
import time

import pytest

from store import ModelName, Store
from tests.check_store import snapshot
from tests.cli.runner import argv, environment, run
from tests.importer.builders import noise, safetensors, write
from tests.importer.exports.exporting import arrays, nothing_else
from tests.importer.exports.gguf_checkpoints import checkpoint as checkpoint_of
from tests.importer.exports.test_export import rot

WAYS = {
    "hf": ("--to", "hf"),
    "mlx": ("--to", "mlx"),
    "mlx int4": ("--to", "mlx", "-q", "int4"),
    "gguf": ("--to", "gguf"),
    "gguf q4_k_m": ("--to", "gguf", "-q", "q4_k_m"),
    "gguf split": ("--to", "gguf", "-q", "q8_0", "--split-max-size", "60KB"),
    "uqff": ("--to", "uqff"),
    "uqff afq4": ("--to", "uqff", "-q", "afq4"),
}
PACKED = "model.layers.0.mlp.up_proj.weight"
SCALE = "model.layers.0.mlp.up_proj.activation_scale"


@pytest.fixture
def filled(store, tmp_path):
    """A store with the model `m`."""
    run("create", "m", checkpoint_of(tmp_path / "in", "llama"), store=store).succeeded()
    return store


def files_of(place):
    """The files of an export, the largest first."""
    found = [place] if place.is_file() else [one for one in place.rglob("*") if one.is_file()]
    return sorted(found, key=lambda one: one.stat().st_size, reverse=True)


def contents(place):
    """What the files of an export hold, in the order of their names."""
    return [path.read_bytes() for path in sorted(files_of(place))]


def manifests_and_blobs(root):
    """What a store holds, without the directory in which files are begun."""
    return {path: one for path, one in snapshot(root).items() if not path.startswith("tmp")}


@pytest.mark.parametrize("way", WAYS)
def test_an_export_is_compared_to_the_last_bit(filled, tmp_path, way):
    place = tmp_path / "out"
    run("export", "m", place, *WAYS[way], store=filled).succeeded()
    words = ("verify", "m", "--export", place)
    assert "with the export: no problems" in run(*words, store=filled).succeeded().stdout

    for path in files_of(place)[: 3 if way == "gguf split" else 1]:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        found = run(*words, "--json", store=filled)
        path.write_bytes(whole)

        assert found.code == 5
        assert [one["problem"] for one in found.document["findings"]] == ["export"]
    assert run(*words, store=filled).succeeded()


@pytest.mark.parametrize("way", WAYS)
def test_the_number_of_threads_changes_no_byte(filled, tmp_path, way, monkeypatch):
    monkeypatch.setattr("importer.exports.jobs._SHARED", 100)
    places = {jobs: tmp_path / jobs / "out" for jobs in ("1", "2", "7")}
    for jobs, place in places.items():
        place.parent.mkdir()
        words = ("export", "m", place, *WAYS[way], "--jobs", jobs)
        run(*words, store=filled).succeeded()

    one, two, seven = map(contents, places.values())

    assert one == two == seven


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_blob_is_named_and_nothing_is_published(filled, tmp_path, way):
    with Store(filled) as store:
        layers = store.catalog.get(ModelName.parse("m")).parse().layers
        layer = max(layers, key=lambda one: one.size)
        rot(store, layer.digest, layer.size - 1)
    before = manifests_and_blobs(filled)
    (tmp_path / "p").mkdir()

    text = run("export", "m", tmp_path / "p" / "out", *WAYS[way], store=filled).failed(5)

    assert str(layer.digest) in text
    assert nothing_else(tmp_path / "p")
    assert manifests_and_blobs(filled) == before


def in_eight_bits(directory):
    """A checkpoint of which one matrix is FP8 with a factor for each block."""
    source = checkpoint_of(directory, "llama")
    tensors = arrays(source)
    _, shape, _ = tensors[PACKED]
    codes = noise(PACKED, math.prod(shape)).replace(b"\x7f", b"\0").replace(b"\xff", b"\0")
    tensors[PACKED] = ("F8_E4M3", shape, codes)
    tensors[f"{PACKED}_scale_inv"] = ("F32", (1, 1), struct.pack("<f", 0.3))
    tensors[SCALE] = ("F32", (), struct.pack("<f", 0.7))
    config = json.loads((source / "config.json").read_bytes())
    told = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config["quantization_config"] = told
    for path in source.glob("*.safetensors*"):
        path.unlink()
    files = {
        "model.safetensors": safetensors(tensors),
        "config.json": json.dumps(config).encode(),
    }
    return write(source, files)


@pytest.mark.parametrize("to", ["gguf", "mlx", "uqff"])
def test_strict_refuses_what_is_told_without_it(store, tmp_path, to):
    words = ("export", in_eight_bits(tmp_path / "in"), tmp_path / "out", "--to", to)

    text = run(*words, "--strict", store=store).failed(3)
    assert "would lose something" in text
    assert nothing_else(tmp_path, "in", *(["store"] if store.exists() else []))

    document = run(*words, "--json", store=store).succeeded().document
    (loss,) = document["lossy"]
    assert "rounded" in loss


@pytest.mark.parametrize("to", ["gguf", "mlx"])
def test_what_scaled_activations_is_left_out_and_said(store, tmp_path, to):
    """llama.cpp's converter drops them; mlx-lm does not load a model that has them."""
    words = ("export", in_eight_bits(tmp_path / "in"), tmp_path / "out", "--to", to)

    document = run(*words, "--json", store=store).succeeded().document

    assert any(SCALE in one for one in document["warnings"])
    assert any("left out" in one for one in document["warnings"])
    assert not any(b"activation_scale" in one for one in contents(tmp_path / "out"))


def test_what_a_format_holds_is_no_loss(store, tmp_path):
    words = ("export", in_eight_bits(tmp_path / "in"), tmp_path / "out", "--to", "hf")

    document = run(*words, "--strict", "--json", store=store).succeeded().document

    assert document["lossy"] == []


@pytest.mark.parametrize("way", ["mlx int4", "gguf q4_k_m", "gguf split", "uqff afq4"])
def test_a_killed_export_is_not_there_and_the_next_one_cleans_up(store, tmp_path, way):
    source = checkpoint_of(tmp_path / "in", "llama")
    place = tmp_path / "p" / "out"
    place.parent.mkdir()
    words = ("export", source, place, *WAYS[way], "--jobs", "1")
    process = subprocess.Popen(
        argv(*words),
        env=environment(store),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if any(place.parent.iterdir()):
            break
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if place.exists():  # it was ready before the signal came
        place.rename(tmp_path / "first")

    run(*words, store=store).succeeded()

    assert nothing_else(tmp_path / "p", "out")
    if (tmp_path / "first").exists():
        assert contents(tmp_path / "first") == contents(place)
