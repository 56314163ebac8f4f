"""`ingot sync` with the Hub: revisions become commits, and stay what they are until asked."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def repository(hub, llama):
    return hub.add("org/model", llama)


@pytest.fixture
def listing(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text('[[model]]\nname = "m"\nsource = "hf:org/model"\nquantize = "int4"\n')
    return path


@pytest.fixture
def synced(ingot, listing, repository):
    assert repository.head, "there is something to import"

    def sync(*words, **environment):
        done = ingot("sync", str(listing), "--json", *words, **environment)
        assert done.code == 0, done.err
        (one,) = json.loads(done.out)["models"]
        return one

    return sync


def locked(listing):
    (one,) = json.loads(listing.with_name("models.toml.lock").read_text())["models"]
    return one


def test_first_again_changed_and_locked(hub, ingot, listing, synced, llama):
    repository = hub.repositories["org/model"]
    first = synced()
    commit = repository.head
    assert (first["action"], first["commit"]) == ("made", commit)
    assert locked(listing) | {"commit": commit, "manifest": first["digest"]} == locked(listing)

    hub.forget_requests()
    again = synced()
    assert again == first | {"action": "unchanged"}
    assert hub.requests == []
    assert synced(HF_HUB_OFFLINE="1") == again

    # The branch moves on: what is locked stays, until it is asked for again.
    later = repository.push(llama | {"added.json": b"{}"})
    assert synced() == again
    assert synced("--locked") == again
    assert locked(listing)["commit"] == commit
    ingot("rm", "m")
    assert synced("--locked") == first

    upgraded = synced("--upgrade")
    assert (upgraded["action"], upgraded["commit"]) == ("replaced", later)
    assert locked(listing)["commit"] == later

    listing.write_text(listing.read_text().replace("int4", "int8"))
    refused = ingot("sync", str(listing), "--locked", "--json")
    assert (refused.code, refused.error["code"]) == (12, "E_SYNC_LOCKED")
    assert synced()["action"] == "replaced"


def test_a_revision_is_asked_for(listing, synced, repository, llama):
    tagged = repository.push(llama | {"old.json": b"{}"}, "v1")
    listing.write_text(listing.read_text() + 'revision = "v1"\n')

    assert synced()["commit"] == tagged


def test_a_dry_run_locks_nothing(listing, synced):
    found = synced("--dry-run")

    assert (found["action"], found["digest"]) == ("made", None)
    assert not listing.with_name("models.toml.lock").exists()
