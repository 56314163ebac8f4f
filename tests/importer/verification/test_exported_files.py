"""`verify --export` of a directory of GGUF files: a split, and a model that sees."""

from __future__ import annotations

import shutil

import pytest

from store import Store
from tests.importer.builders import create
from tests.importer.exports import gguf_vision
from tests.importer.exports.exporting import export
from tests.importer.exports.gguf_checkpoints import checkpoint
from tests.importer.verification.test_exported_file import _start, findings

SIZE = 30_000


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def flipped(path):
    """Change the first bit of a file's first tensor."""
    data = bytearray(path.read_bytes())
    data[_start(data)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["f16", "q4_0", None])
def test_a_split_agrees_and_a_bit_of_any_file_is_found(store, tmp_path, kind):
    create(store, checkpoint(tmp_path / "in", "llama"))
    place = tmp_path / "out"
    export(store, place, "gguf", q=kind, shard_size=SIZE)
    files = sorted(place.iterdir())

    assert len(files) > 2
    assert findings(store, place) == []

    for path in files:
        flipped(path)
    assert len(findings(store, place)) == len(files)


def test_a_file_of_a_split_that_is_gone_is_told(store, tmp_path):
    create(store, checkpoint(tmp_path / "in", "llama"))
    place = tmp_path / "out"
    export(store, place, "gguf", q="f16", shard_size=SIZE)
    files = sorted(place.iterdir())
    files[1].unlink()

    found = dict(findings(store, place))

    assert found["split.count"] == f"is {len(files)}, but {len(files) - 1} files are there"
    assert "is not in the export" in found.values()


def test_a_file_that_is_there_twice_is_told(store, tmp_path):
    create(store, checkpoint(tmp_path / "in", "llama"))
    place = tmp_path / "out"
    export(store, place, "gguf", q="f16", shard_size=SIZE)
    shutil.copyfile(sorted(place.iterdir())[1], place / "more.gguf")
    (place / "notes.txt").write_text("mine")

    found = dict(findings(store, place))

    assert "is in two files" in found.values()
    assert found["notes.txt"] == "is not of the model"


@pytest.mark.parametrize("name", gguf_vision.MODELS)
@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_a_model_that_sees_agrees_and_both_files_are_compared(store, tmp_path, name, kind):
    create(store, gguf_vision.checkpoint(tmp_path / "in", name))
    place = tmp_path / "out"
    export(store, place, "gguf", q=kind, projector=True)

    assert findings(store, place) == []

    flipped(place / "mmproj-m.gguf")
    (one,) = findings(store, place)
    assert one[0].startswith(("v.", "mm."))

    flipped(place / "m.gguf")
    assert len(findings(store, place)) == 2

    (place / "mmproj-m.gguf").unlink()
    assert len(findings(store, place)) == 1  # an export without it is one of the model, too


@pytest.mark.parametrize("again", [None, "q4_0"])
def test_files_that_were_stored_as_they_are_agree(store, tmp_path, again):
    source = gguf_vision.checkpoint(tmp_path / "in", "gemma3")
    export(None, tmp_path / "given", "gguf", source=source, q="bf16", projector=True)
    create(store, tmp_path / "given")
    place = tmp_path / "out"
    export(store, place, "gguf", q=again)

    assert findings(store, place) == []

    flipped(place / "mmproj-m.gguf")
    assert [subject for subject, _ in findings(store, place)] == ["mmproj-m.gguf"]


def test_a_stored_file_that_was_cut_agrees(store, tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "in.gguf", "gguf", source=source, q="bf16")
    create(store, tmp_path / "in.gguf")
    place = tmp_path / "out"
    export(store, place, "gguf", shard_size=SIZE)

    assert findings(store, place) == []

    flipped(max(place.iterdir()))
    assert len(findings(store, place)) == 1


def test_a_stored_split_agrees(store, tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "in.split", "gguf", source=source, q="bf16", shard_size=SIZE)
    create(store, min((tmp_path / "in.split").iterdir()))
    place = tmp_path / "out"
    export(store, place, "gguf")

    assert findings(store, place) == []

    flipped(max(place.rglob("*.gguf")) if place.is_dir() else place)
    assert len(findings(store, place)) == 1
