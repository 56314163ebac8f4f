"""The cache is huggingface_hub's: it understands what we put there, and we what it did."""

from __future__ import annotations

import time

import pytest
from huggingface_hub import constants, snapshot_download
from huggingface_hub.utils import disable_progress_bars

from importer.sources.location import HubRepository
from store.errors import InputError, NetworkError, NotFoundError
from tests.hub.server import Fault, sha256
from tests.hub.test_import import LLAMA, SHARDS

FOLDER = "models--org--tiny-llama"


@pytest.fixture
def fetched(hub, in_process, llama):
    """A repository whose files were imported, and the importing process."""
    hub.add("org/tiny-llama", llama)
    model = in_process.create(LLAMA)
    hub.forget_requests()
    return in_process, model


@pytest.fixture
def offline(monkeypatch):
    """A function that forbids the network."""
    return lambda: monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_huggingface_hub_finds_what_we_fetched(hub, fetched, offline):
    in_process, _ = fetched
    offline()

    ignored = ["*.bin", "onnx/*", "consolidated*", "model.fp16*", ".cache/*"]
    snapshot = snapshot_download("org/tiny-llama", ignore_patterns=ignored)

    commit = hub.repositories["org/tiny-llama"].head
    assert snapshot == str(in_process.cache / FOLDER / "snapshots" / commit)


def test_what_huggingface_hub_fetched_is_not_fetched_again(hub, in_process, llama, offline):
    hub.add("org/tiny-llama", llama)
    with disable_progress_bars():
        snapshot_download(
            "org/tiny-llama",
            allow_patterns=["model-*", "*.json"],
            cache_dir=in_process.cache,
        )
    hub.forget_requests()

    online = in_process.create(LLAMA)
    offline()

    fetched = {".gitattributes", "LICENSE", "README.md", "tokenizer.model"}
    assert hub.asked_for() == fetched
    assert in_process.create(LLAMA) == online


def test_without_links_the_cache_has_copies(hub, in_process, llama, monkeypatch):
    commit = hub.add("org/tiny-llama", llama).head
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", True)

    first = in_process.create(LLAMA)
    hub.forget_requests()
    again = in_process.create(LLAMA)

    snapshot = in_process.cache / FOLDER / "snapshots" / commit
    assert not any(path.is_symlink() for path in snapshot.rglob("*"))
    assert again == first
    assert hub.asked_for() == set()


def test_a_repository_of_the_cache_is_a_source(hub, fetched):
    in_process, (layers, _) = fetched
    commit = hub.repositories["org/tiny-llama"].head

    folder, ours = in_process.create(in_process.cache / FOLDER)
    snapshot, _ = in_process.create(in_process.cache / FOLDER / "snapshots" / commit)

    assert folder == snapshot == layers
    assert "hub" not in ours
    assert hub.requests == []


def test_blobs_may_be_links_to_those_that_all_repositories_share(hub, fetched, offline):
    # As huggingface_hub 2 keeps what it has fetched through Xet.
    in_process, model = fetched
    shared = in_process.cache / "blobs" / "ab"
    shared.mkdir(parents=True)
    for blob in (in_process.cache / FOLDER / "blobs").iterdir():
        blob.rename(shared / blob.name)
        blob.symlink_to(f"../../blobs/ab/{blob.name}")

    online = in_process.create(LLAMA)
    offline()

    assert online == in_process.create(LLAMA) == model
    assert hub.asked_for() == set()


@pytest.mark.parametrize("forbidden", [True, False])
def test_a_file_that_the_cache_lacks_is_named(hub, fetched, offline, forbidden):
    in_process, _ = fetched
    commit = hub.repositories["org/tiny-llama"].head
    (in_process.cache / FOLDER / "snapshots" / commit / SHARDS[1]).unlink()
    hub.stop()
    if forbidden:
        offline()

    with pytest.raises(NotFoundError if forbidden else NetworkError) as caught:
        in_process.create(LLAMA)

    reason = "HF_HUB_OFFLINE is set" if forbidden else "cannot reach the Hub"
    assert str(caught.value).startswith(f"the cache lacks `{SHARDS[1]}` of `hf:org/tiny-llama@")
    assert reason in str(caught.value)


def test_a_snapshot_without_a_list_of_files_is_used_and_said_so(fetched, offline):
    from huggingface_hub import _tree_cache

    in_process, model = fetched
    for path in (in_process.cache / FOLDER / "trees").iterdir():
        path.unlink()
    _tree_cache._IN_MEMORY_TREE_CACHE.clear()
    offline()

    assert in_process.create(LLAMA) == model


def test_a_commit_is_known_offline_by_itself_only(hub, fetched, offline):
    in_process, model = fetched
    commit = hub.repositories["org/tiny-llama"].head
    offline()

    assert in_process.create(HubRepository("org/tiny-llama", commit)) == model
    with pytest.raises(NotFoundError) as caught:
        in_process.create(HubRepository("org/tiny-llama", "v1"))
    assert caught.value.code == "E_HUB_OFFLINE"


def test_a_link_that_leaves_the_cache_is_not_followed(hub, fetched, offline, tmp_path):
    in_process, _ = fetched
    commit = hub.repositories["org/tiny-llama"].head
    pointer = in_process.cache / FOLDER / "snapshots" / commit / "README.md"
    secret = tmp_path / "secret"
    secret.write_bytes(pointer.read_bytes())
    pointer.unlink()
    pointer.symlink_to(secret)
    offline()

    with pytest.raises(InputError) as caught:
        in_process.create(LLAMA)

    assert caught.value.code == "E_PATH"


def test_a_link_that_leads_elsewhere_is_mended(hub, fetched, tmp_path):
    in_process, model = fetched
    commit = hub.repositories["org/tiny-llama"].head
    pointer = in_process.cache / FOLDER / "snapshots" / commit / "README.md"
    pointer.unlink()
    pointer.symlink_to(tmp_path / "nowhere")

    assert in_process.create(LLAMA) == model
    assert hub.asked_for() == set()


def test_an_interrupted_import_goes_on(hub, ingot, llama):
    hub.add("org/tiny-llama", llama)
    whole = llama[SHARDS[1]]
    hub.faults.append(Fault(sha256(whole), stall=50_000, seconds=60))
    part = ingot.cache / FOLDER / "blobs" / f"{sha256(whole)}.incomplete"

    with ingot.start("create", "model", "hf:org/tiny-llama") as process:
        deadline = time.monotonic() + 30
        while not (part.exists() and part.stat().st_size == 50_000):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    hub.forget_requests()
    ingot.create("model", "hf:org/tiny-llama")

    rest = [(wanted, sent) for path, wanted, sent in hub.bodies() if sha256(whole) in path]
    assert rest == [(f"bytes=50000-{len(whole) - 1}", len(whole) - 50_000)]
