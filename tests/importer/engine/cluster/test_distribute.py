"""An import on a cluster gives the bytes of an import on one machine, whatever happens."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.engine.cluster import batches as batching
from importer.engine.cluster import reports
from importer.engine.cluster.batches import LARGEST, MOST, SMALLEST, batches
from importer.engine.ledger import Ledger
from importer.events import BlobDone, Distributed, Planned, Wrote
from importer.recipes.options import parse_options
from importer.recipes.recipe import PLAIN
from importer.sources.location import StoredModel
from store import CommitOutcome, ModelName, Store, memo
from store.errors import InputError
from store.gc import GarbageCollector
from tests.check_store import check_store
from tests.importer.builders import MODELS, REPOSITORY, blobs, create, manifest_bytes, model

LARGE = {f"model.layers.{n}.mlp.up_proj.weight": ("BF16", (64, 64 * n + 64)) for n in range(9)}
EXPERTS = {f"model.layers.0.mlp.experts.{n}.w": ("F16", (5, n)) for n in range(12)}
FIXTURES = REPOSITORY / "fixtures"
INT4 = parse_options("int4")


class Sized(NamedTuple):
    """As much of a job as decides which batch it is in."""

    nbytes: int


@pytest.fixture
def source(tmp_path):
    tensors = {**LARGE, **EXPERTS, "empty": ("F32", (0, 7)), "scalar": ("F32", ())}
    return model(tmp_path / "m", tensors, tokenizer__model=os.urandom(5000), empty__txt="")


@pytest.fixture
def alone(tmp_path):
    with Store(tmp_path / "alone") as store:
        yield store


def nbytes_of(job):
    return job.nbytes


def eventually(holds):
    """Wait for what workers do when they are told, which is soon."""
    for _ in range(500):
        if holds():
            return True
        time.sleep(0.01)
    return False


def is_let_go(store):
    return eventually(lambda: not list(store.layout.tmp.iterdir()))


@given(st.lists(st.integers(0, 3 * SMALLEST), max_size=30), st.sampled_from([1, 2, 100]))
def test_batches_have_every_job_once_the_largest_first_and_are_no_smaller_than_they_must(
    sizes, threads
):
    jobs = ((number, Sized(size)) for number, size in enumerate(sizes))
    made = list(batches(jobs, nbytes_of, threads))

    nbytes = [sum(job.nbytes for _, job in batch) for batch in made]
    flat = [job.nbytes for batch in made for _, job in batch]
    assert sorted(number for batch in made for number, _ in batch) == list(range(len(sizes)))
    assert flat == sorted(sizes, reverse=True)
    assert all(total >= SMALLEST for total in nbytes[:-1])
    for batch in made:
        enough = max(SMALLEST, min(LARGEST, sum(sizes) // (8 * threads)))
        assert sum(job.nbytes for _, job in batch[:-1]) < enough


@pytest.mark.parametrize(
    ("gigabytes", "threads", "tasks"), [(1, 2, 16), (4, 2, 16), (4, 100, 64), (64, 2, 256)]
)
def test_each_thread_has_some_tasks_of_a_size_that_is_worth_it(gigabytes, threads, tasks):
    jobs = ((number, Sized(16 << 20)) for number in range(gigabytes * 64))

    assert len(list(batches(jobs, nbytes_of, threads))) == tasks


def test_a_batch_of_tiny_blobs_has_an_end():
    made = list(batches(((number, Sized(1)) for number in range(MOST + 1)), nbytes_of, 1))

    assert [len(batch) for batch in made] == [MOST, 1]


@pytest.mark.parametrize("fixture", ["tiny-llama", "tiny-moe"])
@pytest.mark.parametrize("asked", [PLAIN, INT4])
def test_a_cluster_makes_the_same_model(address, store, alone, fixture, asked):
    create(alone, MODELS / fixture, recipe=asked)

    create(store, MODELS / fixture, recipe=asked, scheduler=address)

    assert manifest_bytes(store) == manifest_bytes(alone)
    assert blobs(store) == blobs(alone)
    assert is_let_go(store)
    assert check_store(store.layout.root) == []


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("models/tiny-llama", parse_options("int4", calibrate="mse")),
        ("models/tiny-pipeline", parse_options("nvfp4")),
        ("quantized/mo-nvfp4", parse_options("repack")),
        ("quantized/ct-int4-channel", parse_options("int8")),
        ("pytorch/views.pth", PLAIN),
        ("onnx/torch-half.onnx", PLAIN),
    ],
)
def test_every_kind_of_source_can_be_sent(address, store, alone, path, asked):
    create(alone, FIXTURES / path, recipe=asked)

    create(store, FIXTURES / path, recipe=asked, scheduler=address)

    assert manifest_bytes(store) == manifest_bytes(alone)


def test_two_imports_may_use_one_cluster_and_one_store(address, store, alone):
    def made(name, recipe):
        with Store(store.layout.root) as own:
            return create(
                own, MODELS / "tiny-moe", name, recipe=recipe, scheduler=address
            ).digest

    with ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(made, ["plain", "small"], [PLAIN, INT4]))

    assert digests == [
        create(alone, MODELS / "tiny-moe", recipe=one).digest for one in (PLAIN, INT4)
    ]
    assert check_store(store.layout.root) == []


def test_a_stored_model_is_quantized_by_a_cluster(address, store, alone):
    for place, scheduler in ((alone, None), (store, address)):
        create(place, MODELS / "tiny-llama")
        stored = StoredModel(ModelName.parse("m"))
        create(place, stored, "small", recipe=INT4, scheduler=scheduler)

    assert manifest_bytes(store, "small") == manifest_bytes(alone, "small")


@pytest.mark.parametrize("smallest", [1, 5000])
def test_how_jobs_are_batched_changes_no_byte(address, tmp_path, source, smallest, monkeypatch):
    stores = [Store(tmp_path / name) for name in ("store", "alone")]
    monkeypatch.setattr(batching, "SMALLEST", smallest)

    for store, scheduler in zip(stores, (address, None), strict=True):
        create(store, source, scheduler=scheduler)

    assert manifest_bytes(stores[0]) == manifest_bytes(stores[1])
    assert blobs(stores[0]) == blobs(stores[1])


def test_events_are_those_of_a_local_import(address, store, alone, source):
    heard, local = [], []
    create(alone, source, listen=local.append)

    create(store, source, scheduler=address, listen=heard.append)

    (planned,) = [event for event in heard if isinstance(event, Planned)]
    assert sum(e.nbytes for e in heard if isinstance(e, Wrote)) == planned.nbytes
    assert {e for e in heard if isinstance(e, BlobDone)} == {
        e for e in local if isinstance(e, BlobDone)
    }
    assert Distributed(2, 4) in heard


def test_what_workers_tell_meanwhile_counts_once(address, store, source, monkeypatch):
    monkeypatch.setattr(reports, "_INTERVAL", 0)
    monkeypatch.setattr(reports, "_REPORTS", 10**9)
    heard = []

    create(store, source, scheduler=address, listen=heard.append)

    (planned,) = [event for event in heard if isinstance(event, Planned)]
    assert sum(e.nbytes for e in heard if isinstance(e, Wrote)) == planned.nbytes


def test_an_unchanged_source_needs_no_cluster(address, store, source, monkeypatch):
    monkeypatch.setattr(memo, "GRANULARITY_NS", 0)  # the source has just been written
    create(store, source, scheduler=address)

    again = create(store, source, scheduler="tcp://127.0.0.1:1")

    assert again.tally(CommitOutcome.NEW) == (0, 0)


def test_fingerprints_come_back_so_that_a_copied_source_is_recognized(
    address, store, source, tmp_path
):
    create(store, source, scheduler=address)
    copy = tmp_path / "copy"
    os.rename(source, copy)
    for file in copy.iterdir():
        os.utime(file, ns=(1, 1))

    again = create(store, copy, scheduler=address)

    assert again.tally(CommitOutcome.NEW) == (0, 0)
    assert again.tally(CommitOutcome.REUSED)[0] > 0


def test_blobs_that_were_gone_before_they_were_taken_over_are_made_again(
    address, store, alone, source, monkeypatch
):
    create(alone, source)
    adopt, lost = Ledger.adopt, []

    def lose_one(ledger, found):
        if not lost:
            lost.append(found[0].made.ref)
            store.blobs.path(lost[0].digest).unlink()
        adopt(ledger, found)

    monkeypatch.setattr(Ledger, "adopt", lose_one)

    create(store, source, scheduler=address)

    assert lost
    assert manifest_bytes(store) == manifest_bytes(alone)
    assert check_store(store.layout.root) == []


def test_gc_beside_it_takes_nothing_that_a_worker_or_the_client_holds(
    address, store, alone, source, monkeypatch
):
    create(alone, source)
    monkeypatch.setattr(batching, "SMALLEST", 1)
    adopt, removed = Ledger.adopt, []

    def collect_first(*args):
        with Store(store.layout.root) as other:
            removed.extend(GarbageCollector(other).run().blobs)
        adopt(*args)

    monkeypatch.setattr(Ledger, "adopt", collect_first)

    create(store, source, scheduler=address)

    assert removed == []
    assert manifest_bytes(store) == manifest_bytes(alone)


def test_a_value_that_cannot_be_held_is_the_error_of_a_local_import(address, store, tmp_path):
    bad = {"model.layers.0.mlp.up_proj.weight": ("F32", (64, 64), b"\xff" * 64 * 64 * 4)}
    source = model(tmp_path / "bad", bad)

    with pytest.raises(InputError) as caught:
        create(store, source, recipe=INT4, scheduler=address)

    assert caught.value.code == "E_QUANT_NONFINITE"
    assert caught.value.facts["tensor"] in bad
    assert store.catalog.find(ModelName.parse("m")) is None
    assert is_let_go(store)


def test_an_interrupt_stops_workers_and_what_was_done_is_kept(
    address, store, source, monkeypatch
):
    monkeypatch.setattr(batching, "SMALLEST", 1)
    done = []

    def interrupt(event):
        if isinstance(event, BlobDone):
            done.append(event)
            if len(done) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create(store, source, scheduler=address, listen=interrupt)

    assert is_let_go(store)
    assert store.catalog.find(ModelName.parse("m")) is None
    store.memo.save()
    again = create(store, source, scheduler=address)
    assert again.tally(CommitOutcome.REUSED)[0] >= 3
    assert check_store(store.layout.root) == []
