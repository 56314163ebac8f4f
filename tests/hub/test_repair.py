"""A model from the Hub is healed from the cache or from the Hub, at the commit it was of."""

from __future__ import annotations

import shutil

import pytest

from store import Store
from tests.check_store import check_store
from tests.importer.damage import blob_of, flip, lose

pytestmark = pytest.mark.usefixtures("commit")


@pytest.fixture
def commit(hub, llama, ingot):
    """A model `m` in the store, whose repository has moved on since."""
    repository = hub.add("org/tiny-llama", llama)
    ingot.create("m", "hf:org/tiny-llama")
    was = repository.head
    repository.push(llama | {"config.json": b"{}"})
    hub.forget_requests()
    return was


def damage(ingot):
    store = Store(ingot.store)
    flip(blob_of(store, "model.norm.weight"))
    flip(blob_of(store, "config.json"))


def test_what_the_cache_has_is_not_fetched(hub, ingot):
    damage(ingot)

    run = ingot("verify", "--repair")

    assert run.code == 0, run.out
    assert "2 repaired" in run.out
    assert hub.requests == []
    assert check_store(ingot.store) == []


@pytest.mark.parametrize("is_known", [True, False])
def test_without_the_cache_the_hub_heals(ingot, commit, is_known):
    damage(ingot)
    shutil.rmtree(ingot.home)
    if not is_known:
        shutil.rmtree(ingot.store / "origins")

    run = ingot("verify", "--repair")

    assert run.code == 0, run.out
    assert f"from hf:org/tiny-llama@{commit}" in run.out
    assert check_store(ingot.store) == []


@pytest.mark.parametrize("spoil", [lose, flip, lambda path: flip(path, 0)])
def test_the_configuration_is_made_again_with_its_origin(ingot, spoil):
    path = blob_of(Store(ingot.store), "")
    content = path.read_bytes()
    spoil(path)

    run = ingot("verify", "--repair")

    assert run.code == 0, run.out
    assert path.read_bytes() == content
    assert check_store(ingot.store) == []


@pytest.mark.parametrize("how", [{}, {"HF_HUB_OFFLINE": "1"}])
def test_without_cache_and_network_the_command_names_the_commit(hub, ingot, commit, how):
    damage(ingot)
    shutil.rmtree(ingot.home)
    hub.stop()

    run = ingot("verify", "--repair", **how)

    assert run.code == 5
    assert "2 quarantined" in run.out
    assert f"make it again: ingot create m:latest hf:org/tiny-llama@{commit}\n" in run.out
    assert "Traceback" not in run.err


def test_without_network_the_cache_heals(hub, ingot):
    damage(ingot)
    hub.stop()

    assert ingot("verify", "--repair").code == 0
    assert check_store(ingot.store) == []
