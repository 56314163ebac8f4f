"""`ingot verify --repair`: 0 when everything was healed, else 5 and what to do."""

from __future__ import annotations

import shlex
import shutil

import pytest

from store.lock import StoreLock
from tests.check_store import check_store, snapshot
from tests.cli.runner import run, spawn
from tests.importer.builders import MODELS, model


@pytest.fixture
def source(tmp_path):
    return shutil.copytree(MODELS / "tiny-llama", tmp_path / "source")


@pytest.fixture
def damaged(store, source):
    """A store with `m` and its copy `n:1`, of which one blob is bad and one is missing."""
    run("create", "m", source, store=store).succeeded()
    run("cp", "m", "n:1", store=store).succeeded()
    largest = sorted((store / "blobs").iterdir(), key=lambda path: -path.stat().st_size)
    bad, missing = largest[:2]
    bad.chmod(0o600)
    bad.write_bytes(bad.read_bytes()[:-1] + b"\x1b")
    missing.unlink()
    return bad, missing


def digest(path):
    return path.name.replace("-", ":")


def test_everything_is_healed(store, damaged):
    bad, missing = map(digest, damaged)

    outcome = run("verify", "--repair", store=store).succeeded()

    lines = outcome.stdout.splitlines()
    assert {line.split()[0] for line in lines[:2]} == {"digest:", "missing:"}
    assert {tuple(line.split()[:2]) for line in lines[2:4]} == {
        ("repaired:", bad),
        ("repaired:", missing),
    }
    assert lines[-1].endswith(": 2 problems, 2 repaired")
    assert check_store(store) == []
    assert run("verify", store=store).succeeded()


@pytest.mark.usefixtures("damaged")
def test_everything_is_healed_without_the_memo(store):
    (store / "memo.sqlite").unlink()

    run("verify", "--repair", store=store).succeeded()

    assert check_store(store) == []


def test_the_document_of_what_was_healed(store, source, damaged):
    document = run("verify", "--repair", "--json", store=store).succeeded().document

    assert document["ok"] is True
    assert len(document["findings"]) == 2
    assert {blob["digest"] for blob in document["repaired"]} == set(map(digest, damaged))
    assert {blob["source"] for blob in document["repaired"]} == {str(source)}
    assert all(type(blob["bytes"]) is int for blob in document["repaired"])
    assert (document["quarantined"], document["remaining"], document["damaged"]) == ([], [], [])


def test_a_good_store_is_not_touched(filled_store):
    document = run("verify", "--repair", "--json", store=filled_store).succeeded().document

    assert (document["ok"], document["repaired"], document["quarantined"]) == (True, [], [])


@pytest.mark.usefixtures("damaged")
def test_without_the_flag_nothing_is_repaired(store):
    before = snapshot(store)

    document = run("verify", "--json", store=store).document

    assert "repaired" not in document
    assert snapshot(store) == before


def test_what_cannot_be_healed_is_told_with_the_command_that_helps(store, source, damaged):
    moved = source.rename(source.parent / "moved away")
    bad, _ = map(digest, damaged)

    outcome = run("verify", "--repair", store=store).clean()

    assert outcome.code == 5
    assert f"quarantined: {bad} [m:latest, n:1]\n" in outcome.stdout
    assert f"not repaired: m:latest: source `{source}` does not exist\n" in outcome.stdout
    assert outcome.stdout.endswith(": 2 problems, 1 quarantined\n")
    assert not damaged[0].exists()
    commands = [
        line.partition("name where its source is now: ")[2]
        for line in outcome.stdout.splitlines()
        if line.startswith("damaged: ")
    ]
    assert len(commands) == 2
    # The commands do what is said of them.
    for command in commands:
        words = shlex.split(command.replace("SOURCE", shlex.quote(str(moved))))
        run(*words[1:], store=store).succeeded()
    assert check_store(store) == []


def test_the_document_of_what_cannot_be_healed(store, source, damaged):
    shutil.rmtree(source)

    outcome = run("verify", "--repair", "--json", store=store)
    document = outcome.document

    assert outcome.code == 5
    assert document["ok"] is False
    assert document["quarantined"] == [
        {"digest": digest(damaged[0]), "models": ["m:latest", "n:1"]}
    ]
    assert {finding["problem"] for finding in document["remaining"]} == {"missing"}
    assert [loss["model"] for loss in document["damaged"]] == ["m:latest", "n:1"]
    assert all(loss["reasons"] for loss in document["damaged"])
    # Not `create`, of a source that is not there.
    assert [loss["command"] for loss in document["damaged"]] == [
        f"ingot verify {name} --repair --source SOURCE" for name in ("m:latest", "n:1")
    ]


@pytest.mark.usefixtures("damaged")
def test_a_second_repair_heals_when_the_source_is_back(store, source):
    moved = source.rename(source.parent / "moved")
    assert run("verify", "--repair", store=store).code == 5
    moved.rename(source)

    run("verify", "--repair", store=store).succeeded()

    assert check_store(store) == []


@pytest.mark.usefixtures("damaged")
def test_a_source_may_be_given(store, source):
    moved = source.rename(source.parent / "moved")

    outcome = run("verify", "m", "--repair", "--source", moved, store=store).succeeded()

    assert f"from {moved}\n" in outcome.stdout
    assert check_store(store) == []


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("names", [(), ("m", "n:1")])
def test_a_given_source_needs_one_name(store, source, names):
    text = run("verify", *names, "--repair", "--source", source, store=store).failed(2)

    assert "exactly one NAME" in text


def test_a_model_that_is_not_there_is_not_found(filled_store):
    run("verify", "no", "--repair", store=filled_store).failed(9)


def test_what_a_hostile_source_says_reaches_no_terminal(store, tmp_path):
    source = model(tmp_path / "m")
    run("create", "m", source, store=store).succeeded()
    path = max((store / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    path.unlink()
    for origin in (store / "origins").iterdir():  # as of an earlier version, without a copy
        origin.write_bytes(origin.read_bytes().partition(b"\0")[0])
    (source / "a\x1b]0;b\x07.json").write_bytes(b"{}")

    assert run("verify", "--repair", store=store).clean().code == 5


@pytest.mark.usefixtures("damaged")
def test_a_repair_runs_as_a_program_of_its_own(store):
    outcome = spawn("verify", "--repair", "--jobs", "3", store=store).succeeded()

    assert "2 repaired" in outcome.stdout
    assert "making 2 blobs" in outcome.stderr
    assert check_store(store) == []


@pytest.mark.usefixtures("damaged")
def test_gc_frees_what_was_quarantined(store):
    run("verify", "--repair", store=store).succeeded()

    run("gc", "--yes", store=store).succeeded()

    assert check_store(store, after_gc=True) == []


def test_where_nothing_can_be_moved_what_was_found_and_healed_is_told(
    store, damaged, source, monkeypatch
):
    monkeypatch.setattr(StoreLock, "is_effective", lambda _: False)
    bad, missing = damaged
    healed = run("verify", "--repair", "--json", store=store)
    assert healed.succeeded().document["not_quarantined"] is None
    bad.chmod(0o600)
    bad.write_bytes(bad.read_bytes()[:-1] + b"\x1b")
    missing.unlink()
    shutil.rmtree(source)

    text = run("verify", "--repair", store=store).clean()
    document = run("verify", "--repair", "--json", store=store).clean().document

    assert text.code == 5
    assert f"digest: {digest(bad)} " in text.stdout
    assert "not quarantined: locks do nothing" in text.stdout
    assert "ingot verify m:latest --repair --source SOURCE" in text.stdout
    assert bad.exists()
    assert "locks do nothing" in document["not_quarantined"]
    assert {one["problem"] for one in document["remaining"]} == {"digest", "missing"}
