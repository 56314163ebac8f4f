"""`ingot export`: the directory on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import resource

import pytest

from tests.check_store import snapshot
from tests.cli.runner import run, spawn
from tests.importer.builders import MODELS, model
from tests.importer.exports.exporting import arrays, tree


def test_a_model_comes_out(filled, tmp_path):
    outcome = run("export", "kept", tmp_path / "out", "--to", "hf", store=filled)

    outcome.succeeded()
    assert outcome.stdout == f"{tmp_path / 'out'}\n"
    assert "wrote 9 files" in outcome.stderr
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_the_document_has_every_file(filled, tmp_path):
    words = ("export", "kept", tmp_path / "out", "--to", "hf", "--json")
    document = run(*words, store=filled).succeeded().document

    assert (document["schema"], document["format"]) == ("ingot.export/1", "hf")
    files = {file["path"]: file["bytes"] for file in document["files"]}
    assert files == {path: len(data) for path, data in tree(tmp_path / "out").items()}
    assert document["bytes"] == sum(files.values())
    assert document["lossy"] == []


def test_packed_weights_that_grow_are_told_in_the_plan_and_at_the_end(store, tmp_path):
    run("create", "m", MODELS / "tiny-llama", "-q", "int4", store=store).succeeded()
    words, grown = ("export", "m", tmp_path / "out", "--to"), "15 tensors are decoded to BF16: "

    plan = run(*words, "hf", "--dry-run", store=store).succeeded().stdout
    document = run(*words, "hf", "--dry-run", "--json", store=store).document
    told = run(*words, "hf", store=store).succeeded().stderr

    assert document["warnings"] == [f"{grown}56 KB become 156 KB"]
    assert f"note: {grown}56 KB become 156 KB\n" in plan
    assert f"note: {grown}56 KB become 156 KB\n" in told
    kept = run("export", "m", tmp_path / "mlx", "--to", "mlx", store=store).succeeded().stderr
    assert "decoded" not in kept


def test_a_plan_writes_nothing(filled, tmp_path):
    words = ("export", "moe:v1", tmp_path / "out", "--to", "hf", "--dry-run")
    text = run(*words, store=filled).succeeded()
    document = run(*words, "--json", store=filled).succeeded().document

    assert not (tmp_path / "out").exists()
    assert "model.safetensors" in text.stdout
    assert document["dry_run"] is True
    assert len(document["tensors"]) == 61
    assert {"name", "shape", "before", "type", "file", "bytes"} == document["tensors"][0].keys()


def test_nothing_changes_in_the_store(filled, tmp_path):
    before = snapshot(filled)

    run("export", "kept", tmp_path / "out", "--to", "hf", store=filled).succeeded()

    after = snapshot(filled)
    assert {path for path in after if "tmp/" not in path} == {
        path for path in before if "tmp/" not in path
    }


def test_a_stored_name_goes_before_a_path(filled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model(tmp_path / "kept")

    named = run("export", "kept", "a", "--to", "hf", store=filled).succeeded()
    path = run("export", "./kept", "b", "--to", "hf", store=filled).succeeded()

    assert "`kept` is a model in the store and a path" in named.stderr
    assert "note" not in path.stderr
    assert len(arrays(tmp_path / "a")) == 21
    assert arrays(tmp_path / "b") == arrays(tmp_path / "kept")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["kept", ""], 2, "DEST is empty"),
        (["nobody", "out"], 9, "nobody"),
        (["./nowhere", "out"], 9, "nowhere"),
        (["kept", "."], 2, "is not empty"),
        (["kept", "out", "--shard-size", "0"], 2, "--shard-size 0"),
        (["kept", "out", "--shard-size", "many"], 2, "--shard-size many"),
        (["kept", "out", "--dtype", "int4"], 2, "--dtype"),
    ],
)
def test_mistakes(filled, tmp_path, words, code, said):
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine").write_text("mine")

    with contextlib.chdir(here):
        error = run("export", *words, "--to", "hf", store=filled).failed(code)

    assert said in error
    assert tree(here) == {"mine": b"mine"}


def test_a_read_only_store_can_be_exported_from(filled, tmp_path):
    places = [filled, *(path for path in filled.rglob("*") if path.is_dir())]
    for place in places:
        place.chmod(0o500)
    try:
        run("export", "kept", tmp_path / "out", "--to", "hf", store=filled).succeeded()
    finally:
        for place in places:
            place.chmod(0o700)


@pytest.mark.parametrize("to", ["hf", "mlx"])
def test_an_error_names_the_place_that_the_user_named(store, tmp_path, to):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))

    words = ("export", "m", tmp_path / "dest", "--to", to)
    text = spawn(*words, store=store, preexec_fn=limited).failed(7)

    assert f"`{tmp_path}/dest/" in text
    assert ".ingot-export" not in text
    assert list(tmp_path.glob("*export*")) == []
    archive = tmp_path / "one.tar"
    text = spawn("save", "m", archive, store=store, preexec_fn=limited).failed(7)
    assert f"`{archive}`" in text


def test_a_source_needs_no_store(store, tmp_path):
    words = ("export", MODELS / "tiny-pipeline", tmp_path / "out", "--to", "hf")

    run(*words, store=store).succeeded()

    assert not store.exists()
    index = json.loads((tmp_path / "out" / "model_index.json").read_bytes())
    assert index["_class_name"]


@pytest.mark.parametrize("source", ["hf:org/model", MODELS / "tiny-llama"])
def test_a_cluster_that_is_not_there_is_known_before_anything_is_fetched(tmp_path, source):
    words = ("--to", "hf", "--scheduler", "nonsense")

    message = run("export", source, tmp_path / "out", *words, store=tmp_path / "s").failed(2)

    assert "`nonsense` is not the address of a scheduler" in message
    assert not any(path.name.startswith((".ingot", "out")) for path in tmp_path.iterdir())


def test_a_dry_run_asks_no_cluster(tmp_path):
    words = ("--to", "hf", "--scheduler", "nonsense", "--dry-run")

    run("export", MODELS / "tiny-llama", tmp_path / "out", *words).succeeded()
