"""`show --tensor`: what values are like, alone and against their source; `--tree`."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from store import Store
from tests.cli.runner import CONTROL, run
from tests.importer.builders import MODELS, handmade, model, safetensors, tensor_layer

GATE = "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """A store with an int4 model whose source may go, and one that is made of a stored one."""
    place = tmp_path_factory.mktemp("quantized")
    shutil.copytree(MODELS / "tiny-llama", place / "source")
    store = place / "store"
    run("create", "plain", place / "source", store=store).succeeded()
    run("create", "m", place / "source", "-q", "int4", "--report", store=store).succeeded()
    run("create", "again", "plain", "-q", "int4", store=store).succeeded()
    return store


def statistics(*words, store):
    shown = run("show", *words, "--json", store=store)
    assert (shown.code, CONTROL.search(shown.stdout)) == (0, None), shown.stderr
    return json.loads(shown.stdout, parse_constant=pytest.fail)["statistics"]


def test_a_tensor_is_compared_with_its_source(quantized):
    (found,) = statistics("m", "--tensor", GATE, store=quantized)
    shown = run("show", "m", "--quality", GATE, "--json", store=quantized).stdout
    (report,) = json.loads(shown)["quality"]

    assert found["source"] == str(quantized.parent / "source")
    for measure in ("sqnr_db", "relative_rmse", "max_error", "sums"):
        assert found["against_source"][measure] == report[measure]
    assert found["elements"] == sum(found["codes"]["counts"]) == 128 * 64
    assert (found["type"], found["dtype"]) == ("int4", "BF16")


def test_a_model_made_of_a_stored_one_is_compared_with_that(quantized):
    (found,) = statistics("again", "--tensor", GATE, store=quantized)

    assert found["source"] == "plain:latest"
    assert found["against_source"]["sqnr_db"] > 15


def test_a_source_that_is_gone_is_told(quantized, tmp_path):
    store = shutil.copytree(quantized, tmp_path / "copy")
    for origin in (store / "origins").iterdir():
        origin.chmod(0o600)
        origin.write_text(str(tmp_path / "gone"))

    shown = run("show", "m", "--tensor", GATE, store=store).succeeded().stdout

    assert f"not compared: {tmp_path}/gone is not there" in shown
    assert statistics("m", "--tensor", GATE, store=store)[0]["against_source"] is None


def test_a_source_that_changed_is_not_compared_with(quantized, tmp_path):
    place = shutil.copytree(quantized.parent, tmp_path / "place")
    for origin in (place / "store" / "origins").iterdir():
        origin.chmod(0o600)
        origin.write_text(str(place / "source"))
    files = (place / "source").glob("*.safetensors")
    file = next(one for one in files if GATE.encode() in one.read_bytes())
    before, data = file.stat(), bytearray(file.read_bytes())
    header = int.from_bytes(data[:8], "little")
    begin = json.loads(data[8 : 8 + header])[GATE]["data_offsets"][0]
    data[8 + header + begin + 1] ^= 0x40  # one weight becomes another, of the same size
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    shown = run("show", "m", "--tensor", GATE, store=place / "store").succeeded().stdout
    (found,) = statistics("m", "--tensor", GATE, store=place / "store")

    assert (
        f"not compared: {place / 'source'} or the stored model has changed since: `{GATE}`"
        in shown
    )
    assert (found["source"], found["against_source"]) == (None, None)
    # The others are what they were.
    (other,) = statistics("m", "--tensor", GATE.replace(".0.", ".1."), store=place / "store")
    assert other["against_source"] is not None


def test_a_glob_chooses_tensors_and_an_exact_name_one(quantized):
    found = statistics("m", "--tensor", "*.layers.0.mlp.*", store=quantized)

    last = [one["name"].split(".")[-2] for one in found]
    assert last == ["down_proj", "gate_proj", "up_proj"]
    told = run("show", "m", "--tensor", "model.layers.0.mlp.gate_porj.weight", store=quantized)
    assert f"Did you mean `{GATE}`?" in told.failed(9)


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", ["m", "plain"])
def test_it_fits_the_terminal(quantized, columns, name):
    words = ("show", name, "--tensor", "*", "--store", quantized)

    shown = run(*words, COLUMNS=str(columns)).succeeded().stdout

    assert max(map(len, shown.splitlines())) <= columns
    assert "█" in shown


def test_values_that_are_not_numbers_are_counted(store):
    nan = b"\x00\x00\xc0\x7f" * 2 + b"\x00\x00\x80\x3f" * 2
    layer = tensor_layer(safetensors({"w": ("F32", (4,), nan)}), "w", dtype="F32", shape=(4,))
    with Store(store) as opened:
        handmade(opened, [layer])

    shown = run("show", "m", "--tensor", "*", store=store).succeeded().stdout

    assert "2 NaN, 0 infinite" in shown


def test_a_damaged_blob_is_one_clean_error(quantized, tmp_path):
    store = shutil.copytree(quantized, tmp_path / "copy")
    document = run("show", "m", "--json", store=store).document
    digest = next(one["digest"] for one in document["tensors"] if one["name"] == GATE)
    path = store / "blobs" / digest.replace(":", "-")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-40])

    run("show", "m", "--tensor", GATE, store=store).failed(5)


def test_the_tree_adds_up(quantized):
    shown = run("show", "m", "--tree", "--json", store=quantized).succeeded().document
    whole = run("show", "m", "--json", store=quantized).document

    def check(node):
        if node["parts"]:
            assert sum(part["bytes"] for part in node["parts"]) == node["bytes"]
            assert sum(part["tensors"] for part in node["parts"]) == node["tensors"]
        for part in node["parts"]:
            check(part)

    tree = shown["tree"]
    check(tree)
    assert (
        tree["bytes"] == whole["weight_bytes"] == sum(one["bytes"] for one in whole["tensors"])
    )
    assert tree["tensors"] == 21
    (layers,) = [part for part in tree["parts"] if part["layers"]]
    assert (layers["name"], layers["layers"]) == ("layers 0-1", 2)
    assert {part["name"] for part in layers["parts"]} == {"mlp", "attention", "norm"}
    names = {part["name"] for part in tree["parts"]}
    assert names == {"layers 0-1", "embedding", "output", "norm"}


def test_the_tree_of_a_mixture_and_of_a_pipeline(store):
    run("create", "moe", MODELS / "tiny-moe", store=store).succeeded()
    run("create", "pipe", MODELS / "tiny-pipeline", store=store).succeeded()

    moe = run("show", "moe", "--tree", store=store).succeeded().stdout
    pipe = run("show", "pipe", "--tree", "--json", store=store).document["tree"]

    assert "experts" in moe
    assert "router" in moe
    assert {part["name"] for part in pipe["parts"]} == {"text_encoder", "transformer", "vae"}


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_tree_fits_the_terminal(quantized, columns):
    shown = run("show", "m", "--tree", store=quantized, COLUMNS=str(columns)).succeeded().stdout

    assert max(map(len, shown.splitlines())) <= columns
    assert "attention" in shown
    assert "█" in shown


def test_a_model_without_tensors_has_a_tree(store, tmp_path):
    with Store(store) as opened:
        handmade(opened, [])

    assert "0 B" in run("show", "m", "--tree", store=store).succeeded().stdout
    run("create", "x", model(tmp_path / "x"), store=store).succeeded()
    run("show", "x", "--tree", store=store).succeeded()


@pytest.mark.parametrize("flag", ["--tensor", "--tensors"])
def test_a_part_of_a_name_is_answered_with_the_glob_that_finds_it(quantized, flag):
    done = run("show", "m", flag, "layers.0", store=quantized)

    assert "no tensor of m:latest matches `layers.0`" in done.stderr
    assert f"`{flag} '*layers.0*'` finds 9 tensors" in done.stderr
