"""A model from the Hub is healed from the cache or from the Hub, at the commit it was of."""

from __future__ import annotations

import json
import shutil

import pytest

from store import Store
from tests.check_store import check_store
from tests.importer.builders import safetensors
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


def large(rows=512):
    """A model of 8 MB in two shards, of which one tensor is 4 %."""
    names = [f"model.layers.{number}.mlp.up_proj.weight" for number in range(32)]
    shapes = dict.fromkeys(names, ("BF16", (rows, 256)))
    halves = [dict(list(shapes.items())[:16]), dict(list(shapes.items())[16:])]
    shards = {f"model-{n + 1:05}-of-00002.safetensors": one for n, one in enumerate(halves)}
    index = {name: file for file, shard in shards.items() for name in shard}
    total = {"total_size": len(names) * rows * 512}
    return {
        **{file: safetensors(shard) for file, shard in shards.items()},
        "model.safetensors.index.json": json.dumps(
            {"metadata": total, "weight_map": index}
        ).encode(),
        "config.json": b"{}",
    }


@pytest.mark.parametrize("options", [[], ["-q", "int4", "--allow-nonfinite"]])
def test_one_blob_takes_its_own_ranges(hub, ingot, options):
    files = large()
    hub.add("org/large", files)
    ingot.create("large", "hf:org/large", *options)
    shutil.rmtree(ingot.home)
    hub.forget_requests()
    path = blob_of(Store(ingot.store), "model.layers.20.mlp.up_proj.weight", "large")
    content = path.read_bytes()
    flip(path)

    run = ingot("verify", "large", "--repair")

    assert run.code == 0, run.out + run.err
    assert "1 repaired" in run.out
    assert path.read_bytes() == content
    assert check_store(ingot.store) == []
    sent = sum(nbytes for file, _, nbytes in hub.bodies() if ".safetensors?" in file)
    tensor, head = 512 * 256 * 2, 128 << 10
    assert tensor <= sent <= tensor + 3 * head
    assert list(ingot.cache.rglob("*.safetensors")) == []


def test_what_differs_at_the_hub_does_not_repair(hub, ingot):
    files = large()
    repository = hub.add("org/large", files)
    ingot.create("large", "hf:org/large")
    shutil.rmtree(ingot.home)
    flip(blob_of(Store(ingot.store), "model.layers.20.mlp.up_proj.weight", "large"))
    name = "model-00002-of-00002.safetensors"
    flipped = bytearray(files[name])
    flipped[len(flipped) * 9 // 32] ^= 1
    repository.commits[repository.head][name] = bytes(flipped)

    run = ingot("verify", "large", "--repair")

    assert run.code == 5
    assert "changed: `model.layers.20.mlp.up_proj.weight`" in run.out


def test_much_is_fetched_as_whole_files(hub, ingot):
    hub.add("org/large", large())
    ingot.create("large", "hf:org/large")
    shutil.rmtree(ingot.home)
    store = Store(ingot.store)
    for number in range(24):
        flip(blob_of(store, f"model.layers.{number}.mlp.up_proj.weight", "large"))

    run = ingot("verify", "large", "--repair")

    assert run.code == 0, run.out + run.err
    assert "24 repaired" in run.out
    assert len(list(ingot.cache.rglob("*.safetensors"))) == 2
