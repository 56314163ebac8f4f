"""A repository on the Hub becomes the model that its full local clone becomes."""

from __future__ import annotations

import json

import pytest
from huggingface_hub import constants

from importer.events import Fetched, Fetching, Received
from importer.hub import headers
from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.location import HubRepository, parse_source
from store import ModelName, Store
from tests.hub.conftest import MODELS, read_files, read_model
from tests.hub.server import GOOD_TOKEN, sha256

SHARDS = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
INDEX = "model.safetensors.index.json"
KEPT = {
    ".gitattributes",
    "LICENSE",
    "README.md",
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
}
LLAMA = HubRepository("org/tiny-llama")


def write_files(directory, files):
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return directory


def test_the_model_is_that_of_a_local_clone_but_for_where_it_is_from(
    hub, ingot, llama, tmp_path
):
    commit = hub.add("org/tiny-llama", llama).head
    clone = write_files(tmp_path / "clone", llama)

    ingot.create("here", str(clone))
    ingot.create("there", f"{hub.url}/org/tiny-llama/tree/main")

    store = Store(ingot.store)
    (here, ours_here), (there, ours_there) = (
        read_model(store, name) for name in ("here", "there")
    )
    assert there == here
    assert ours_there.pop("hub") == {"commit": commit, "repository": "org/tiny-llama"}
    declared = {entry["name"]: entry.pop("sha256", None) for entry in ours_there["files"]}
    assert ours_there == ours_here
    large = {path: sha256(llama[path]) for path in [*SHARDS, "tokenizer.model"]}
    assert declared == dict.fromkeys(KEPT) | large


def test_only_what_the_import_reads_is_fetched(hub, in_process, llama):
    hub.add("org/tiny-llama", llama)

    in_process.create(LLAMA)

    assert hub.asked_for() == KEPT | set(SHARDS) | {INDEX}
    assert len(hub.bodies()) == len(hub.asked_for())


def test_everything_that_arrives_is_reported(hub, in_process, llama):
    commit = hub.add("org/tiny-llama", llama).head
    nbytes = sum(len(llama[path]) for path in KEPT | set(SHARDS))

    in_process.create(LLAMA)

    begin, *arrived = [e for e in in_process.events if isinstance(e, Fetching | Received)]
    end = next(event for event in in_process.events if isinstance(event, Fetched))
    assert begin == Fetching("org/tiny-llama", commit, len(KEPT | set(SHARDS)), nbytes)
    assert sum(event.nbytes for event in arrived) == nbytes
    assert (end.files, end.nbytes) == (begin.files, begin.nbytes)


def test_a_pipeline_is_that_of_a_local_clone(hub, in_process, tmp_path):
    wanted = read_files(MODELS / "tiny-pipeline")
    files = wanted | {
        "vae/diffusion_pytorch_model.fp16.safetensors": b"not even read",
        "vae/diffusion_pytorch_model.bin": b"not even read",
        "text_encoder/openvino/model.json": b"not even read",
    }
    hub.add("org/pipeline", files)

    here, _ = in_process.create(write_files(tmp_path / "clone", files))
    there, _ = in_process.create(parse_source("hf.co/org/pipeline"))

    assert there == here
    assert hub.asked_for() == set(wanted)


def test_a_variant_is_that_of_a_local_clone(hub, in_process, tmp_path):
    plain = "vae/diffusion_pytorch_model.safetensors"
    variant = "vae/diffusion_pytorch_model.fp16.safetensors"
    files = read_files(MODELS / "tiny-pipeline")
    files[variant] = files[plain]
    hub.add("org/pipeline", files)

    here, _ = in_process.create(write_files(tmp_path / "clone", files), "fp16")
    there, _ = in_process.create(HubRepository("org/pipeline"), "fp16")

    assert there == here
    assert variant in hub.asked_for()
    assert plain not in hub.asked_for()


def test_again_offline_from_the_cache(hub, ingot, llama):
    hub.add("org/tiny-llama", llama)
    first = ingot.create("model", "hf:org/tiny-llama")
    hub.stop()

    forbidden = ingot("create", "model", "hf:org/tiny-llama", HF_HUB_OFFLINE="1")
    unreachable = ingot("create", "model", "hf:org/tiny-llama", "--json")

    assert forbidden.code == unreachable.code == 0
    assert forbidden.out.split()[1] == json.loads(unreachable.out)["digest"] == first
    assert "warning" not in forbidden.err
    (warning,) = json.loads(unreachable.out)["warnings"]
    assert "cannot reach the Hub" in warning
    assert hub.repositories["org/tiny-llama"].head in warning


def test_what_the_cache_lacks_says_what_forbids_the_network(hub, ingot, llama):
    hub.add("org/tiny-llama", llama)

    told = ingot("create", "model", "hf:org/tiny-llama", HF_HUB_OFFLINE="1")

    assert told.code == 9
    assert "hint: Unset HF_HUB_OFFLINE" in told.err


def test_a_branch_that_moved_is_fetched_but_for_what_stayed(
    hub, in_process, llama, monkeypatch
):
    repository = hub.add("org/tiny-llama", llama)
    first = in_process.create(LLAMA)
    old = repository.head
    commit = repository.push(llama | {"README.md": b"new\n"})
    hub.forget_requests()

    second = in_process.create(LLAMA)
    pinned = in_process.create(HubRepository("org/tiny-llama", old))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    offline = in_process.create(LLAMA)

    assert hub.asked_for() == {"README.md"}
    assert second[1]["hub"]["commit"] == commit
    assert (pinned, offline) == (first, second)


def test_a_dry_run_reads_headers_only(hub, ingot, llama, tmp_path):
    hub.add("org/tiny-llama", llama)
    clone = str(write_files(tmp_path / "clone", llama))

    here = ingot("create", "model", clone, "--dry-run", "--json")
    there = ingot("create", "model", "hf:org/tiny-llama", "--dry-run", "--json")

    there, here = json.loads(there.out), json.loads(here.out)
    # The configuration names the repository.
    longer = there["documents"].pop("bytes") - here["documents"].pop("bytes")
    assert longer > 0
    assert there["total"].pop("bytes") - here["total"].pop("bytes") == longer
    assert there.pop("new_bytes_at_most") - here.pop("new_bytes_at_most") == longer
    assert there == here
    assert not (ingot.cache / "models--org--tiny-llama/snapshots").exists()
    assert not (ingot.store / "manifests").exists()


@pytest.mark.parametrize("at_first", [64, 4 << 10])
def test_a_dry_run_reads_a_header_in_two_pieces_when_it_is_long(
    hub, in_process, llama, monkeypatch, at_first
):
    hub.add("org/tiny-llama", llama)
    monkeypatch.setattr(headers, "_HEAD_BYTES", at_first)
    request = ImportRequest(ModelName.parse("model"), LLAMA)

    plan = plan_import(request, in_process.store, only_headers=True)

    assert len(plan.inventory.tensors) == 21
    ranges = {}
    for path, wanted, _ in hub.bodies():
        ranges.setdefault(path.partition("?")[0].rpartition("/")[2], []).append(wanted)
    for path in SHARDS:
        header = 8 + int.from_bytes(llama[path][:8], "little")
        rest = [f"bytes={at_first}-{header - 1}"] if header > at_first else []
        assert ranges[path] == [f"bytes=0-{at_first - 1}", *rest]


def test_the_token_opens_what_is_private_and_goes_nowhere_else(
    hub, in_process, llama, monkeypatch
):
    hub.add("org/private", llama, private=True)
    monkeypatch.setenv("HF_TOKEN", GOOD_TOKEN)

    in_process.create(HubRepository("org/private"))

    tokens = {storage: set() for storage in (False, True)}
    for seen in hub.requests:
        if "org/private" in seen.path:
            tokens[seen.storage].add(seen.token)
    assert tokens == {False: {GOOD_TOKEN}, True: {None}}


def test_progress_off_a_terminal_is_a_line_for_each_phase(hub, ingot, llama):
    commit = hub.add("org/tiny-llama", llama).head

    first = ingot("create", "model", "hf:org/tiny-llama")
    second = ingot("create", "model", "hf:org/tiny-llama", HF_HUB_DISABLE_PROGRESS_BARS="0")

    begin, done, *rest = first.err.splitlines()
    assert begin == f"fetching 12 files (169 KB) of org/tiny-llama at {commit[:12]}"
    assert done.startswith("fetched 12 files (169 KB) in ")
    assert rest[0].startswith("scanned 21 tensors")
    assert second.err.splitlines()[0] == f"fetching nothing of org/tiny-llama at {commit[:12]}"
    assert "\r" not in first.err + second.err


def test_two_imports_at_once_fetch_everything_once(hub, ingot, llama):
    hub.add("org/tiny-llama", llama)

    both = [ingot.start("create", name, "hf:org/tiny-llama") for name in ("a", "b")]
    ends = [(*process.communicate(timeout=60), process.returncode) for process in both]

    assert [code for _, _, code in ends] == [0, 0], ends
    assert len(hub.bodies()) == len(KEPT | set(SHARDS)) + 1


def test_equal_files_are_fetched_once(hub, in_process, llama):
    twins = {"a.model": b"the same", "b.model": b"the same", "c.txt": b"", "d.txt": b""}
    hub.add("org/tiny-llama", llama | twins)

    layers, _ = in_process.create(LLAMA)

    assert set(twins) <= {layer.name for layer in layers}
    assert len([path for path, _, _ in hub.bodies() if sha256(b"the same") in path]) == 1
