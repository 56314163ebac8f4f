"""A place without a store is told, and a directory of something else does not become one."""

from __future__ import annotations

import shutil

import pytest

from tests.check_store import check_store, snapshot
from tests.cli.runner import run
from tests.importer.builders import MODELS, write

LLAMA = MODELS / "tiny-llama"
READING = [
    ("list",),
    ("list", "--json"),
    ("show", "m"),
    ("verify",),
    ("verify", "m"),
    ("gc", "--yes"),
    ("gc", "--dry-run"),
    ("cp", "m", "n"),
    ("rm", "m"),
]


def fails(words, store):
    """Run a command that must not find a store, and return its error in words."""
    outcome = run(*words, store=store)
    return outcome.error if "--json" in words else {"message": outcome.failed(9)}


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_store_that_is_not_there_is_not_found(store, words):
    assert f"there is no store at `{store}`" in fails(words, store)["message"]
    assert not store.exists()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_directory_of_something_else_is_not_a_store(store, words):
    write(store, {"notes.txt": b"x"})

    assert f"`{store}` is not a store: it has `notes.txt`" in fails(words, store)["message"]
    assert [path.name for path in store.iterdir()] == ["notes.txt"]


def test_a_directory_of_something_else_becomes_a_store_only_on_demand(store):
    write(store, {"notes.txt": b"x", "blobs/x": b"y", "refs/main": b"z"})
    before = snapshot(store)

    text = run("create", "m", LLAMA, store=store).failed(2)
    assert f"`{store}` is not a store, and does not become one: it has `notes.txt`" in text
    assert "`--init`" in text
    assert snapshot(store) == before

    run("create", "m", LLAMA, "--init", store=store).succeeded()
    assert (store / "notes.txt").read_bytes() == b"x"
    run("create", "n", LLAMA, store=store).succeeded()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_an_empty_directory_is_not_a_store(store, words):
    """As where a cache of CI was not mounted: `verify` must not find it good."""
    store.mkdir()

    assert f"`{store}` is not a store: it is empty" in fails(words, store)["message"]
    assert list(store.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "is_store"),
    [
        ((), False),
        (("lost+found",), False),
        ((".DS_Store",), False),
        (("blobs", "manifests"), True),
        (("blobs", "tmp"), True),
    ],
)
def test_what_may_become_a_store(store, names, is_store):
    store.mkdir()
    for name in names:
        (store / name).mkdir()

    assert run("list", store=store).code == (0 if is_store else 9)
    run("create", "m", LLAMA, store=store).succeeded()
    assert (store / "VERSION").exists()


def test_a_store_of_ollama_is_a_store_whatever_else_it_holds(filled, tmp_path):
    ollama = tmp_path / "models"
    for part in ("blobs", "manifests"):
        shutil.copytree(filled / part, ollama / part)
    write(ollama, {"notes.txt": b"x"})

    run("show", "kept", store=ollama).succeeded()
    run("create", "m", LLAMA, store=ollama).succeeded()


def test_a_writer_that_was_killed_while_it_made_the_store_is_no_hindrance(store):
    for names in (("blobs",), ("blobs", "manifests", "tmp"), ("memo.sqlite", "locks")):
        for name in names:
            (store / name).mkdir(parents=True, exist_ok=True)
        run("list", store=store).succeeded()
        shutil.rmtree(store)
    (store / "blobs").mkdir(parents=True)

    run("create", "m", LLAMA, store=store).succeeded()

    assert check_store(store) == []


@pytest.mark.parametrize(
    "words",
    [
        ("create", "x", "hf:org/nowhere"),
        ("create", "x", "/nowhere", "--dry-run"),
        ("sync", "nowhere.toml"),
        ("pull", "localhost:1/me/m", "x"),
        ("load", "nowhere.tar"),
    ],
    ids=lambda words: words[0],
)
def test_a_directory_of_something_else_is_refused_before_anything_is_fetched(tmp_path, words):
    (tmp_path / "file").touch()

    outcome = run(*words, "--json", store=tmp_path)

    assert (outcome.code, outcome.error["code"]) == (2, "E_STORE_FOREIGN")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
