"""`ingot sync` says of each model what `ingot create` says of it."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.cli.runner import run
from tests.importer.builders import MODELS

MOE = f'[[model]]\nname = "moe"\nsource = "{MODELS / "tiny-moe"}"\nquantize = "int4"\n'
AGAIN = '[[model]]\nname = "again"\nsource = "moe"\nquantize = "int8"\nvision = "keep"\n'
LLAMA = f'[[model]]\nname = "plain"\nsource = "{MODELS / "tiny-llama"}"\n'


@pytest.fixture
def listing(tmp_path):
    """A list of models of which there is something to say, and of one like no other."""
    path = tmp_path / "models.toml"
    path.write_text(MOE + AGAIN + LLAMA)
    return path


@pytest.fixture
def created(tmp_path):
    """What `create` says of the same models, line by line."""
    other = tmp_path / "other"
    first = run("create", "moe", MODELS / "tiny-moe", "-q", "int4", store=other)
    more = ("-q", "int8", "--vision", "keep")
    second = run("create", "again", "moe", *more, store=other)
    return [one.succeeded().stderr.splitlines() for one in (first, second)]


def of(name, lines, *kinds):
    """Return lines of some kinds, as a sync of several models says them."""
    named = [line.split(": ", 1) for line in lines if line.startswith(tuple(kinds))]
    return [f"{kind}: `{name}:latest`: {text}" for kind, text in named]


def test_warnings_and_notes_are_those_of_create_with_the_name_of_the_model(
    listing, store, created
):
    told = run("sync", listing, store=store).succeeded().stderr.splitlines()

    expected = of("moe", created[0], "warning", "note")
    expected += of("again", created[1], "warning", "note")
    assert len(expected) >= 5
    assert [line for line in told if line.startswith(("warning", "note"))] == expected
    (left_out,) = [line for line in told if "left out" in line]
    assert left_out.startswith("`plain:latest`: left out 4 files (")
    assert left_out.endswith("): see `ingot create --dry-run`")


@pytest.mark.parametrize("words", [("--quiet",), ("--progress", "none")])
def test_warnings_are_kept_where_little_is_wanted(listing, store, created, words):
    told = run("sync", listing, *words, store=store).succeeded().stderr.splitlines()

    expected = of("moe", created[0], "warning") + of("again", created[1], "warning")
    assert [line for line in told if line.startswith("warning")] == expected
    assert any(line.startswith("note") for line in told) == ("--quiet" not in words)


def test_a_dry_run_warns_of_what_it_can_plan(listing, store, created):
    told = run("sync", listing, "--dry-run", store=store).succeeded()

    assert of("moe", created[0], "warning")[0] in told.stderr.splitlines()
    assert "warning" not in told.stdout


def test_the_document_has_the_warnings_of_each_model(listing, store, created):
    done = run("sync", listing, "--json", store=store).succeeded()
    again = run("sync", listing, "--json", store=store).succeeded().document["models"]

    found = [one["warnings"] for one in done.document["models"]]
    assert [f"warning: {one}" for one in found[0]] == [
        line for line in created[0] if line.startswith("warning")
    ]
    assert len(found[1]) >= 2
    assert found[2] == []
    assert done.stderr == ""
    assert [one["action"] for one in again] == ["unchanged"] * 3


def test_a_model_that_is_left_alone_is_not_warned_of_again(listing, store):
    run("sync", listing, store=store).succeeded()

    assert "warning" not in run("sync", listing, store=store).succeeded().stderr


def test_suspicious_tensors_are_warned_of(tmp_path, store):
    source = tmp_path / "outliers"
    source.mkdir()
    values = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) / 1000
    values[:, ::32] = 5.0
    save_file({"a.weight": values}, source / "model.safetensors")
    words = ("-q", "int4", "--report", "--quiet")
    told = run("create", "m", source, *words, store=store).succeeded()
    document = run("create", "m", source, *words, "--json", store=store).succeeded().document

    assert told.stderr == "warning: 1 of 1 tensor is suspicious\n"
    assert document["warnings"] == ["1 of 1 tensor is suspicious"]
