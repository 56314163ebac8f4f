"""A plan is carried out in parallel and in pieces, and always to the same bytes."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from importer.engine import workers, write
from importer.events import BlobDone, Wrote
from importer.pipeline import import_model, plan_import
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from store import CommitOutcome, ModelName, Store, linux
from store.errors import InputError, StorageError
from tests.importer.builders import MODELS, blobs, create, model

LARGE = {f"model.layers.{n}.mlp.up_proj.weight": ("BF16", (64, 8 * n + 8)) for n in range(9)}
EXPERTS = {f"model.layers.0.mlp.experts.{n}.w": ("F16", (5, n)) for n in range(12)}


@pytest.fixture
def source(tmp_path):
    tensors = {**LARGE, **EXPERTS, "empty": ("F32", (0, 7)), "scalar": ("F32", ())}
    return model(tmp_path / "m", tensors, tokenizer__model=os.urandom(5000), empty__txt="")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def run(store, source, threads=1, listen=lambda _: None):
    """Import a source; give what was planned and what became of it."""
    plan = plan_import(ImportRequest(ModelName.parse("m"), source), store)
    result = create(store, source, threads=threads, listen=listen)
    return (*plan.blobs, *plan.files), result.written


def test_every_blob_has_the_bytes_that_were_planned(store, source):
    jobs, written = run(store, source)

    for job, done in zip(jobs, written, strict=True):
        assert done.ref.size == job.nbytes
        assert store.blobs.path(done.ref.digest).stat().st_size == job.nbytes


@pytest.mark.parametrize(("many", "expected"), [(5, 1), (1000, 0)])
def test_what_a_large_plan_took_is_given_back_once(store, source, monkeypatch, many, expected):
    asked = []
    monkeypatch.setattr(write, "_MANY", many)
    monkeypatch.setattr(linux, "give_back_memory", lambda: asked.append(True))

    run(store, source)

    assert len(asked) == expected


@pytest.mark.parametrize("threads", [1, 2, 3, 16, 100])
def test_threads_change_no_byte(store, source, threads):
    other = Store(store.layout.root.with_name("other"))
    _, expected = run(other, source)

    _, written = run(store, source, threads)

    assert [done.ref for done in written] == [done.ref for done in expected]
    assert blobs(store) == blobs(other)


@pytest.mark.parametrize("chunk", [1, 7, 4096, 1 << 19])
def test_the_size_of_a_chunk_changes_no_byte(store, source, chunk, monkeypatch):
    other = Store(store.layout.root.with_name("other"))
    run(other, source)
    monkeypatch.setattr(workers, "CHUNK", chunk)

    run(store, source, 2)

    assert blobs(store) == blobs(other)


@pytest.mark.parametrize("nbytes", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_tensor_around_the_size_of_a_chunk_is_whole(store, tmp_path, nbytes):
    data = os.urandom(nbytes)
    source = model(tmp_path / "m", {"w": ("U8", (nbytes,), data)})

    _, (blob, _) = run(store, source)

    assert store.blobs.path(blob.ref.digest).read_bytes().endswith(data)


def test_events_count_every_byte_and_every_blob(store, source):
    events = []

    jobs, written = run(store, source, threads=4, listen=events.append)

    bytes_written = sum(event.nbytes for event in events if isinstance(event, Wrote))
    done = [event for event in events if isinstance(event, BlobDone)]
    assert bytes_written == sum(job.nbytes for job in jobs)
    assert sum(event.nbytes for event in done) == bytes_written
    assert len(done) == len(written) == len(jobs)


def test_the_listener_is_called_by_one_thread_at_a_time(store, source):
    busy = threading.Lock()
    overlaps = []

    def listen(_):
        overlaps.append(not busy.acquire(blocking=False))
        if not overlaps[-1]:
            busy.release()

    run(store, source, threads=8, listen=listen)

    assert not any(overlaps)


def test_what_is_there_is_reused(store, source):
    run(store, source)

    _, written = run(store, source)

    assert {done.installed for done in written} == {CommitOutcome.REUSED}


def test_no_partial_file_stays(store, source):
    run(store, source, threads=4)

    assert list(store.layout.tmp.iterdir()) == []


def refused(store, source, listen, error=InputError):
    """Import, expecting an error, and judge that nothing was published."""
    create(store, MODELS / "single-file", "before")
    models = sorted(str(path) for path in store.layout.manifests.rglob("*"))
    with pytest.raises(error) as caught:
        create(store, source, threads=2, listen=listen)
    assert sorted(str(path) for path in store.layout.manifests.rglob("*")) == models
    assert list(store.layout.tmp.iterdir()) == []
    return caught.value


def on_first(kind, do):
    """A listener that does something once, at the first event of a kind."""
    todo = [do]

    def listen(event):
        if isinstance(event, kind) and todo:
            todo.pop()()

    return listen


def _rewrite(path):
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))


def _replace(path):
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").rename(path)


CHANGES = {
    "truncated": lambda path: os.truncate(path, 3000),
    "longer": lambda path: path.open("ab").write(b"x") and None,
    "rewritten": _rewrite,
    "replaced": _replace,
    "removed": os.unlink,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "config.json"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_source_that_changes_during_the_import_is_refused(store, source, change, name):
    error = refused(store, source, on_first(BlobDone, lambda: change(source / name)))

    assert error.code == "E_SOURCE_CHANGED"
    assert name in str(error)


def test_a_source_that_is_truncated_under_the_reader_is_an_error(store, tmp_path):
    source = model(tmp_path / "m", {"w": ("U8", (5 << 20,), bytes(5 << 20))})
    path = source / "model.safetensors"
    started = []

    def listen(event):
        if isinstance(event, Wrote):
            started.append(event)
            if len(started) == 2:  # the header and one chunk
                os.truncate(path, 2 << 20)

    error = refused(store, source, listen)

    assert error.code == "E_SOURCE_CHANGED"


def test_a_device_that_fails_in_the_middle_is_an_error(store, tmp_path, monkeypatch):
    source = model(tmp_path / "m", {"w": ("U8", (5 << 20,), bytes(5 << 20))})
    real = os.preadv

    def fail(descriptor, buffers, offset):
        if offset > 3 << 20:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", fail)
    error = refused(store, source, lambda _: None, StorageError)

    assert error.code == "E_IO"
    assert "`model.safetensors`: Input/output error at byte" in str(error)


def test_a_source_that_goes_after_it_was_planned_is_refused(store, source):
    request = ImportRequest(ModelName.parse("m"), source, threads=4)
    plan = plan_import(request, store)
    os.unlink(source / "model.safetensors")

    with pytest.raises(InputError) as caught:
        import_model(request, plan, store)
    assert caught.value.code == "E_SOURCE_CHANGED"


def test_a_listener_that_fails_stops_everything(store, source):
    class Gone(Exception):  # noqa: N818 - a test's own
        pass

    def listen(event):
        if isinstance(event, BlobDone):
            raise Gone

    refused(store, source, listen, Gone)


def test_a_source_of_the_inventory_is_read_through_the_same_door(store, source):
    assert {tensor.file.path for tensor in read_inventory(source).tensors} == {
        "model.safetensors"
    }
    assert not store.exists
