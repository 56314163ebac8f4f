"""What files of weights say about themselves is recorded, shown, compared, and handed on."""

from __future__ import annotations

import pytest

from importer.models.description import describe
from importer.recipes.options import parse_options
from importer.sources.file_metadata import fits_record, told
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import ModelName, Store
from tests.cli.runner import run
from tests.importer.builders import create, safetensors, write

NAME = ModelName.parse("m")
TENSORS = {"a.weight": ("BF16", (4, 64))}
SAID = {"format": "pt", "author": "\u001b[31m somebody", "step": "12"}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def source(tmp_path, metadata):
    return write(
        tmp_path / "s", {"model.safetensors": safetensors(TENSORS, metadata), "config.json": {}}
    )


def said(store, name="m"):
    return {
        (entry.file, entry.key): entry.value
        for entry in describe(store, ModelName.parse(name)).metadata
    }


def test_what_a_file_says_is_kept_and_handed_on(store, tmp_path):
    create(store, source(tmp_path, SAID))
    create(store, StoredModel(NAME), "n", recipe=parse_options("int4"))

    expected = {("model.safetensors", key): value for key, value in SAID.items()}
    assert said(store) == expected
    assert said(store, "n") == expected
    shown = run("show", "m", "--metadata", store=store.layout.root).succeeded().stdout
    assert "step" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("usual", [{"format": "pt"}, {}, None])
def test_what_every_file_says_is_not_worth_recording(store, tmp_path, usual):
    create(store, source(tmp_path, usual))

    assert said(store) == {}
    run("show", "m", "--metadata", store=store.layout.root).failed(9)


def test_a_difference_is_found(store, tmp_path):
    place = source(tmp_path, SAID)
    create(store, place)
    assert compare(store, NAME, place).findings == ()

    write(place, {"model.safetensors": safetensors(TENSORS, SAID | {"step": "13"})})
    (found,) = compare(store, NAME, place).findings

    assert (found.subject, found.message) == (
        "model.safetensors",
        "what the file says about itself differs",
    )


def test_too_much_is_left_out_and_told(store, tmp_path):
    place = source(tmp_path, {"notes": "x" * (1 << 20)})

    result = run("create", "m", place, store=store.layout.root).succeeded()

    assert "too much to be kept" in result.stderr
    assert said(store) == {}
    assert not fits_record({"a": {"notes": "x" * (1 << 20)}})
    assert told({"b": {"k": "v"}, "a": {"format": "pt"}}) == {"b": {"k": "v"}}
