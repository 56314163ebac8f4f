"""`verify --repair` of a model that was pulled: its registry has each blob under its digest."""

from __future__ import annotations

import shutil

import pytest

from tests.check_store import check_store
from tests.cli.runner import run
from tests.importer.builders import MODELS
from tests.registry.conftest import digest_in
from tests.registry.server import Fault


@pytest.fixture
def other(registry, store, tmp_path):
    """Another store, which has pulled the model, and neither source nor first store."""
    run("push", "m", f"{registry.host}/me/m:1", store=store).succeeded()
    path = tmp_path / "other"
    run("pull", f"{registry.host}/me/m:1", "p", store=path).succeeded()
    registry.forget()
    return path


def blobs(store):
    """The paths of blobs, the largest first."""
    return sorted((store / "blobs").iterdir(), key=lambda path: -path.stat().st_size)


def spoil(store):
    """Damage one blob, remove another and the configuration; return the digests."""
    bad, missing, config = *blobs(store)[:2], config_of(store)
    bad.chmod(0o600)
    bad.write_bytes(bad.read_bytes()[:-1] + b"\x1b")
    missing.unlink()
    config.unlink()
    return {path.name.replace("-", ":") for path in (bad, missing, config)}


def config_of(store):
    return next(path for path in blobs(store) if b'"model_format"' in path.read_bytes())


def test_what_is_damaged_is_fetched_and_nothing_else(registry, other):
    spoiled = spoil(other)

    document = run("verify", "--repair", "--json", store=other).succeeded().document

    place = f"oci://{registry.host}/me/m:1"
    assert {(one["digest"], one["source"]) for one in document["repaired"]} == {
        (digest, place) for digest in spoiled
    }
    asked = {one.path.rpartition("/")[2] for one in registry.asked("GET", "/me/m/blobs/")}
    assert asked == spoiled
    assert registry.asked("GET", "manifests") == []
    assert check_store(other) == []
    assert run("verify", store=other).succeeded()


def test_people_are_told_where_it_came_from(registry, other):
    spoil(other)

    lines = run("verify", "--repair", store=other).succeeded().stdout.splitlines()

    # Wrapped between words, as every line of text is.
    assert " ".join(lines).count(f"from oci://{registry.host}/me/m:1") == 3
    assert lines[-1].endswith("3 problems, 3 repaired")


def test_a_registry_that_needs_a_login_is_asked_with_it(registry, other, logged_in):
    registry.auth = "basic"
    spoil(other)
    outcome = run("verify", "--repair", store=other)
    assert outcome.code == 5
    assert "wants credentials" in " ".join(outcome.stdout.split())
    logged_in()

    run("verify", "--repair", store=other).succeeded()

    assert check_store(other) == []


def test_a_blob_that_the_registry_lost_does_not_keep_the_others(registry, other):
    spoiled = spoil(other)
    lost = next(iter(sorted(spoiled)))
    del registry.blobs["me/m", lost]

    outcome = run("verify", "--repair", "--json", store=other)

    assert outcome.code == 5
    document = outcome.document
    assert {one["digest"] for one in document["repaired"]} == spoiled - {lost}
    (damaged,) = document["damaged"]
    assert damaged["command"] == f"ingot pull {registry.host}/me/m:1 p:latest"
    assert any(lost in reason for reason in damaged["reasons"])


def test_what_a_registry_gives_is_not_believed(registry, other):
    spoiled = spoil(other)
    for key in [key for key in registry.blobs if key[1] in spoiled]:
        registry.blobs[key] = b"x" * len(registry.blobs[key])

    outcome = run("verify", "--repair", "--json", store=other)

    assert outcome.code == 5
    assert outcome.document["repaired"] == []
    assert not {digest.replace(":", "-") for digest in spoiled} & {
        path.name for path in (other / "blobs").iterdir()
    }


def test_a_registry_that_is_gone_is_told_with_the_command_that_helps(registry, other):
    spoil(other)
    registry.stop()

    outcome = run("verify", "--repair", store=other)

    assert outcome.code == 5
    text = " ".join(outcome.stdout.split())
    assert "cannot reach the registry" in text
    assert f"ingot pull {registry.host}/me/m:1 p:latest" in text


def test_a_cut_is_gone_on_from(registry, other):
    spoil(other)
    registry.faults.append(Fault("GET", "blobs", cut=100))

    run("verify", "--repair", store=other).succeeded()

    assert check_store(other) == []


def test_a_copy_and_a_derived_model_know_the_registry(registry, other, tmp_path):
    run("cp", "p", "q", store=other).succeeded()
    (tmp_path / "Modelfile").write_text("FROM p\nSYSTEM Be brief.\n")
    run("create", "r", "-f", tmp_path / "Modelfile", store=other).succeeded()
    run("rm", "p", store=other).succeeded()
    largest = blobs(other)[0]
    largest.unlink()

    run("verify", "r", "--repair", store=other).succeeded()

    assert largest.exists()
    assert check_store(other) == []
    shown = run("show", "q", "--json", store=other).succeeded().document
    assert shown["source"] == f"oci://{registry.host}/me/m:1"


def test_the_name_says_it_where_nothing_is_noted(registry, store, tmp_path):
    """As in stores that an earlier version, or Ollama, has pulled into."""
    name, other = f"{registry.host}/me/m:1", tmp_path / "other"
    run("push", "m", name, store=store).succeeded()
    run("pull", name, store=other).succeeded()
    shutil.rmtree(other / "origins")
    spoil(other)

    run("verify", "--repair", store=other).succeeded()

    assert check_store(other) == []


def test_a_source_on_this_machine_goes_before_what_a_name_says(registry, tmp_path):
    store, name = tmp_path / "own", f"{registry.host}/me/m:1"
    run("create", name, MODELS / "tiny-llama", store=store).succeeded()
    run("push", name, store=store).succeeded()
    registry.forget()
    blobs(store)[0].unlink()

    run("verify", "--repair", store=store).succeeded()

    assert registry.requests == []


def test_a_source_that_is_there_stays_noted_when_the_model_is_pulled(registry, store):
    run("push", "m", f"{registry.host}/me/m:1", store=store).succeeded()
    before = digest_in(store, "m")

    run("pull", f"{registry.host}/me/m:1", "p", store=store).succeeded()

    assert digest_in(store, "p") == before
    shown = run("show", "p", "--json", store=store).succeeded().document
    assert shown["source"] == str(MODELS / "tiny-llama")


def test_a_source_that_is_gone_gives_way_to_the_registry(registry, tmp_path):
    source = shutil.copytree(MODELS / "tiny-llama", tmp_path / "source")
    store = tmp_path / "own"
    run("create", "m", source, store=store).succeeded()
    run("push", "m", f"{registry.host}/me/m:1", store=store).succeeded()
    shutil.rmtree(source)

    run("pull", f"{registry.host}/me/m:1", "m", store=store).succeeded()
    blobs(store)[0].unlink()

    run("verify", "--repair", store=store).succeeded()


def test_the_place_that_show_prints_can_be_pulled_from(other, tmp_path):
    place = run("show", "p", "--json", store=other).succeeded().document["source"]

    run("pull", place, "p", store=tmp_path / "third").succeeded()
