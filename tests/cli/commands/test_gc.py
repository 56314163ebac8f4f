"""`ingot gc`: asks a person, refuses a script without --yes, says what goes."""

from __future__ import annotations

import os
import shutil

import pytest

from store import Store
from store.fs import FileSystem
from store.names import ModelName
from tests.check_store import check_store, manifest_path, snapshot
from tests.cli.runner import DIGEST, run, spawn


@pytest.fixture
def doomed(filled):
    """A store with a model that was removed; and the bytes that nothing names."""
    before = sum(path.stat().st_size for path in (filled / "blobs").iterdir())
    run("rm", "kept", store=filled).succeeded()
    run("create", "again", manifest_source("tiny-moe"), store=filled)
    run("rm", "again", store=filled).succeeded()
    shown = run("show", "moe:v1", "--json", store=filled).document
    extra = sum(path.stat().st_size for path in (filled / "blobs").iterdir())
    assert extra == before
    return filled, extra - shown["size"]


def manifest_source(fixture):
    from tests.importer.builders import MODELS

    return MODELS / fixture


@pytest.mark.parametrize("words", [("gc",), ("gc", "--json"), ("gc", "--wait", "1")])
def test_off_a_terminal_gc_needs_yes(doomed, words):
    store, _ = doomed
    before = snapshot(store)

    outcome = run(*words, store=store)

    assert outcome.code == 2
    assert "no terminal to ask on" in outcome.clean().stderr
    assert spawn(*words, store=store).code == 2
    assert snapshot(store) == before


def test_a_dry_run_tells_and_removes_nothing(doomed):
    store, nbytes = doomed
    before = snapshot(store)

    text = run("gc", "--dry-run", store=store).succeeded()
    document = run("gc", "--dry-run", "--json", store=store).succeeded().document

    assert text.stdout.startswith("would free 1")
    assert (document["schema"], document["dry_run"]) == ("ingot.gc/1", True)
    assert document["bytes"] == nbytes == sum(blob["bytes"] for blob in document["blobs"])
    assert all(DIGEST.fullmatch(blob["digest"]) for blob in document["blobs"])
    assert snapshot(store) == before


def test_yes_frees_what_nothing_names(doomed):
    store, nbytes = doomed
    planned = run("gc", "--dry-run", "--json", store=store).document

    document = run("gc", "--yes", "--json", store=store).succeeded().document

    assert document == planned | {"dry_run": False}
    assert document["bytes"] == nbytes
    assert check_store(store, after_gc=True) == []
    run("show", "moe:v1", store=store).succeeded()
    assert run("gc", "-y", store=store).succeeded().stdout == "nothing to free\n"


@pytest.mark.parametrize("words", [("--dry-run",), ("--dry-run", "--json")])
def test_a_dry_run_writes_nothing_into_a_store_of_ollama(filled, words):
    for name in ("tmp", "quarantine", "locks", "origins", "VERSION"):
        path = filled / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in filled.glob("memo.sqlite*"):
        path.unlink()
    before = {path.name for path in filled.iterdir()}

    run("gc", *words, store=filled).succeeded()

    assert {path.name for path in filled.iterdir()} == before


def unfinished(store, host=None, boot=None):
    """Leave what a killed import leaves: a folder with a partial file and a pinned blob."""
    with Store(store) as opened:
        this_host, this_boot = FileSystem().machine()
        folder = store / "tmp" / f"{host or this_host}.{boot or this_boot}.1.{'0' * 16}"
        folder.mkdir()
        with opened.writing("") as writer:
            ref, _ = writer.put(b"a finished blob of an unfinished import")
    (folder / "lock").touch()
    (folder / "purpose").write_text("llama:latest\x1b[2J")
    (folder / "pins").write_text(f"{ref.digest}\n")
    (folder / "0.partial").write_bytes(b"x" * 1000)
    return folder


def test_an_unfinished_import_is_named_and_freed(filled):
    folder = unfinished(filled)

    told = run("gc", "--dry-run", store=filled).succeeded().stdout
    document = run("gc", "--yes", "--json", store=filled).succeeded().document

    assert "unfinished import of llama:latest\\x1b[2J, 39 B of finished blobs" in told
    (found,) = document["unfinished"]
    assert found["partial_bytes"] >= 1000
    assert (found["blobs"], found["blob_bytes"]) == (1, 39)
    assert not folder.exists()
    assert check_store(filled, after_gc=True) == []


def test_a_writer_of_another_boot_is_dead(filled):
    folder = unfinished(filled, boot="another-boot")

    run("gc", "--yes", store=filled).succeeded()

    assert not folder.exists()


def test_a_writer_of_another_host_is_kept_until_it_is_forgotten(filled):
    folder = unfinished(filled, host="elsewhere", boot="its-own-boot")

    text = run("gc", "--yes", store=filled).succeeded().stdout
    assert "`--forget elsewhere` if they are dead" in text
    assert folder.exists()

    document = run("gc", "--yes", "--forget", "elsewhere", "--json", store=filled).document
    assert document["kept_writers"] == []
    assert not folder.exists()


def test_a_lock_that_is_held_makes_gc_wait_and_then_give_up(filled):
    fs = FileSystem()
    held = fs.try_lock(filled / "locks" / "store", exclusive=False)
    try:
        outcome = run("gc", "--yes", "--wait", "0.1", "--json", store=filled)
    finally:
        fs.close(held)

    assert (outcome.clean().error["code"], outcome.code) == ("E_BUSY", 6)
    run("gc", "--yes", "--wait", "0", store=filled).succeeded()


@pytest.mark.parametrize("wait", ["-1", "x", ""])
def test_a_wait_that_cannot_be_is_a_usage_error(filled_store, wait):
    run("gc", "--yes", "--wait", wait, store=filled_store).failed(2)


def test_what_is_in_quarantine_is_freed(filled):
    (filled / "quarantine" / "sha256-x.1").write_bytes(b"123")

    text = run("gc", "--yes", store=filled).succeeded().stdout

    assert "1 from quarantine" in text
    assert list((filled / "quarantine").iterdir()) == []


def test_a_blob_of_a_living_writer_is_kept(filled):
    with Store(filled) as opened, opened.writing("x") as writer:
        ref, _ = writer.put(b"still needed")
        document = run("gc", "--yes", "--json", store=filled).succeeded().document

        assert opened.blobs.holds(ref)
        assert [found["pid"] for found in document["kept_writers"]] == [str(os.getpid())]


def test_a_manifest_of_another_program_stops_gc(filled):
    path = manifest_path(filled, "kept").with_name("a b")
    path.write_bytes(manifest_path(filled, "kept").read_bytes())

    text = run("gc", "--yes", store=filled).failed(5)

    assert "a b" in text
    assert "nothing was removed" in text
    assert ModelName.parse("kept").model == "kept"
