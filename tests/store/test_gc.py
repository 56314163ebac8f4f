from __future__ import annotations

import errno
import os

import pytest

from store.errors import BusyError, IntegrityError
from store.fs import FileSystem
from store.gc import GarbageCollector
from store.mark import EMPTY
from store.memo import Memo
from store.store import Store
from store.verify import verify
from store.writer_folder import LOCK, PINS, PURPOSE, WriterId
from tests.check_store import check_store, snapshot
from tests.store.builders import (
    OTHER,
    TENSORS,
    create,
    make_manifest,
    name,
    ref_of,
    tensor_blob,
    write_blobs,
)
from tests.store.judge import ROOT, litter
from tests.store.sim_fs import Fault, home

HOST, BOOT = FileSystem().machine()


def collect(store, **options):
    return GarbageCollector(store, **options).run()


def put(store, content):
    with store.writing(name()) as writer:
        return writer.put(content)[0]


def leave_folder(store, host=HOST, boot=BOOT, pins=(), content=b"partial"):
    """Make what a writer leaves that was killed, or that runs on another host."""
    folder = store.layout.tmp / str(WriterId(host, boot, "1", "00"))
    folder.mkdir()
    (folder / LOCK).write_bytes(b"")
    (folder / PINS).write_text("".join(f"{ref.digest}\n" for ref in pins))
    (folder / PURPOSE).write_text("m:q4")
    (folder / "0.partial").write_bytes(content)
    return folder


def put_manifest(store, path, content):
    target = store.layout.manifests / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def test_a_blob_that_nothing_names_is_removed(store):
    ref = put(store, b"nobody's")

    collect(store)

    assert not store.blobs.holds(ref)


def test_what_a_model_names_is_kept(store):
    create(store)
    put(store, b"nobody's")

    collect(store)

    assert check_store(store.layout.root, after_gc=True) == []
    assert all(store.blobs.holds(ref) for ref in make_manifest().blobs)


def test_what_only_a_removed_model_named_is_removed(store):
    create(store)
    create(store, "other", OTHER)
    store.remove([name("other")])

    collect(store)

    assert check_store(store.layout.root, after_gc=True) == []
    assert not store.blobs.holds(ref_of(tensor_blob("c.weight", OTHER["c.weight"])))


def test_gc_says_what_it_freed(store):
    ref = put(store, b"nobody's")

    plan = collect(store)

    assert [(blob.digest, blob.size) for blob in plan.blobs] == [(ref.digest, ref.size)]
    assert plan.nbytes == ref.size


def test_a_second_gc_has_nothing_to_do(store):
    create(store)
    put(store, b"nobody's")
    leave_folder(store)
    collect(store)

    assert collect(store).is_empty


def test_an_empty_plan_is_empty():
    assert EMPTY.is_empty


def test_a_plan_removes_nothing(store):
    put(store, b"nobody's")
    leave_folder(store)
    before = {path for path in store.layout.root.rglob("*") if path.name != LOCK}

    plan = GarbageCollector(store).plan()

    assert {path for path in store.layout.root.rglob("*") if path.name != LOCK} == before
    assert (len(plan.blobs), len(plan.unfinished)) == (1, 1)


def test_a_run_removes_what_was_planned(store):
    put(store, b"nobody's")
    leave_folder(store)
    (store.layout.tmp / "litter").write_bytes(b"x")
    (store.layout.quarantine / "sha256-bad").write_bytes(b"bad")

    assert GarbageCollector(store).plan() == collect(store)


def test_a_killed_writer_is_cleaned_up_after(store):
    folder = leave_folder(store)

    collect(store)

    assert not folder.exists()


def test_an_unfinished_import_is_named_with_what_it_loses(store):
    named, lost = make_manifest().config.ref, put(store, b"finished blob")
    create(store)
    leave_folder(store, pins=(named, lost))

    (unfinished,) = collect(store).unfinished

    assert unfinished.purpose == "m:q4"
    assert (unfinished.blobs, unfinished.pinned_bytes) == (2, lost.size)


def test_the_purpose_of_an_import_can_be_printed(store):
    (leave_folder(store) / PURPOSE).write_text("\x1b[2J")

    assert collect(store).unfinished[0].purpose == r"\x1b[2J"


def test_a_writer_of_an_earlier_boot_is_dead(store):
    folder = leave_folder(store, boot="earlier")

    collect(store)

    assert not folder.exists()


def test_a_writer_of_another_host_may_live(store):
    ref = put(store, b"its blob")
    folder = leave_folder(store, host="elsewhere", boot="other", pins=(ref,))

    plan = collect(store)

    assert folder.exists()
    assert store.blobs.holds(ref)
    assert [writer.host for writer in plan.kept] == ["elsewhere"]


def test_a_host_that_is_forgotten_has_no_living_writers(store):
    ref = put(store, b"its blob")
    folder = leave_folder(store, host="elsewhere", boot="other", pins=(ref,))

    collect(store, forget=frozenset({"elsewhere"}))

    assert not folder.exists()
    assert not store.blobs.holds(ref)


def test_to_forget_one_host_is_not_to_forget_another(store):
    folder = leave_folder(store, host="elsewhere", boot="other")

    collect(store, forget=frozenset({"nowhere"}))

    assert folder.exists()


def test_to_forget_this_host_does_not_kill_its_writers(store):
    with store.writing(name()) as writer:
        ref, _ = writer.put(b"pinned")
        collect(store, forget=frozenset({HOST}))

        assert store.blobs.holds(ref)


def test_a_living_writer_is_kept_with_its_pins(store):
    with store.writing(name()) as writer:
        ref, _ = writer.put(b"pinned")
        plan = collect(store)

        assert writer.folder.exists()
        assert store.blobs.holds(ref)
        assert [str(kept) for kept in plan.kept] == [writer.folder.name]
        assert plan.foreign == ()


def test_the_torn_pin_of_a_killed_writer_is_overlooked(store):
    ref = put(store, b"whole pin")
    folder = leave_folder(store, host="elsewhere", pins=(ref,))
    with (folder / PINS).open("a") as pins:
        pins.write("sha256:0123")

    collect(store)

    assert store.blobs.holds(ref)


def test_pins_that_cannot_be_read_stop_gc(store):
    ref = put(store, b"pinned")
    folder = leave_folder(store, host="elsewhere")
    (folder / PINS).unlink()
    (folder / PINS).symlink_to("pins")

    with pytest.raises(OSError, match="pins"):
        collect(store)
    assert store.blobs.holds(ref)


def test_a_folder_without_pins_pins_nothing(store):
    ref = put(store, b"nobody's")
    (leave_folder(store, host="elsewhere") / PINS).unlink()

    collect(store)

    assert not store.blobs.holds(ref)


def test_quarantine_is_emptied(store):
    create(store)
    path = store.blobs.path(make_manifest().config.ref.digest)
    path.unlink()
    path.write_bytes(b"bad")
    create(store)

    plan = collect(store)

    assert [size for _, size in plan.quarantined] == [3]
    assert list(store.layout.quarantine.iterdir()) == []


def test_a_directory_in_quarantine_is_removed_whole(store):
    inner = store.layout.quarantine / "sha256-bad.1" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_bytes(b"x")

    collect(store)

    assert list(store.layout.quarantine.iterdir()) == []


def test_litter_in_tmp_is_removed(store):
    (store.layout.tmp / "VERSION-1").write_bytes(b"1\n")

    assert collect(store).leftovers == ("VERSION-1",)
    assert list(store.layout.tmp.iterdir()) == []


def test_a_link_in_tmp_is_removed_and_not_followed(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    (store.layout.tmp / "link").symlink_to(outside)
    (leave_folder(store) / "link").symlink_to(outside)

    collect(store)

    assert (outside / "precious").exists()
    assert list(store.layout.tmp.iterdir()) == []


# M13 of reliability.md.
@pytest.mark.parametrize(
    "foreign", ["sha256-x", ".DS_Store", "a.tmp", f"sha256-{'0' * 64}-partial", "sha256-12345"]
)
def test_foreign_names_among_the_blobs_are_left_alone(store, foreign):
    (store.layout.blobs / foreign).write_bytes(b"x")

    assert collect(store).is_empty
    assert (store.layout.blobs / foreign).exists()


def test_a_link_named_like_a_blob_is_removed_and_not_followed(store, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"x")
    store.blobs.path(ref_of(b"y").digest).symlink_to(target)

    collect(store)

    assert list(store.layout.blobs.iterdir()) == []
    assert target.exists()


def test_directories_that_became_empty_are_removed(store):
    create(store, "host.example/me/m")
    create(store)
    store.remove([name("host.example/me/m")])

    collect(store)

    assert [path.name for path in store.layout.manifests.iterdir()] == ["registry.ollama.ai"]


# M01, M08, M14, M15 of reliability.md: whoever does not know every root removes nothing.
TORN = "registry.ollama.ai/library/torn/latest"
MANIFEST = make_manifest().to_bytes()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (TORN, b""),
        (TORN, b'{"schemaVersion":2'),
        (TORN, b'{"schemaVersion":2,"mediaType":"","config":{},"layers":[]}'),
        (TORN, MANIFEST.replace(b'"schemaVersion":2', b'"schemaVersion":3')),
        (TORN, MANIFEST.replace(b"docker.distribution", b"oci")),
        (TORN, MANIFEST + b"x"),
        ("registry.ollama.ai/library/file", b"{}"),
        ("registry.ollama.ai/library/m/latest/deeper", b"{}"),
        ("file", b"{}"),
    ],
)
def test_gc_refuses_when_it_cannot_read_a_manifest(store, path, content):
    ref = put(store, b"nobody's")
    put_manifest(store, path, content)

    with pytest.raises(IntegrityError) as caught:
        collect(store)

    assert (caught.value.code, caught.value.exit_code) == ("E_GC_REFUSED", 5)
    assert f"`manifests/{path.removesuffix('/deeper')}`" in str(caught.value)
    assert store.blobs.holds(ref)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_gc_refuses_a_link_below_manifests(store, depth):
    ref = put(store, b"nobody's")
    link = store.layout.manifests.joinpath(*["part"] * depth)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/")

    with pytest.raises(IntegrityError):
        collect(store)
    assert store.blobs.holds(ref)


def test_a_refusal_leaves_no_litter(store):
    put_manifest(store, "file", b"{}")

    with pytest.raises(IntegrityError):
        collect(store)
    assert list(store.layout.tmp.iterdir()) == []


def test_a_refused_gc_works_after_rm(store):
    create(store)
    store.catalog.path(name()).write_bytes(b"")
    store.remove([name()])

    collect(store)

    assert list(store.layout.blobs.iterdir()) == []


def test_gc_gives_up_when_the_store_is_busy(store):
    with store.lock.shared(), pytest.raises(BusyError):
        collect(store, wait=0.05)


def test_gc_of_a_store_that_ollama_made_works(store):
    create(store)
    for directory in ("tmp", "quarantine", "locks", "origins"):
        for path in (store.layout.root / directory).iterdir():
            path.unlink()
        (store.layout.root / directory).rmdir()
    store.layout.version.unlink()

    before = snapshot(store.layout.root)

    assert GarbageCollector(store).plan().is_empty
    assert snapshot(store.layout.root) == before
    assert collect(store).is_empty


# M19 of reliability.md.
@pytest.mark.parametrize("seconds", [0, 2**33])
def test_gc_looks_at_no_clock(store, seconds):
    create(store)
    ref = put(store, b"nobody's")
    for path in store.layout.root.rglob("*"):
        os.utime(path, (seconds, seconds))

    collect(store)

    assert not store.blobs.holds(ref)
    assert verify(store).findings == ()


def test_gc_forgets_what_it_removed(store):
    ref = put(store, b"nobody's")
    seen = store.blobs.status(ref.digest)

    collect(store)

    assert not store.memo.knows(ref.digest, seen)


def full_disk():
    """A store with garbage on a disk that takes nothing any more."""
    fs = home()
    store = Store(ROOT, fs, Memo(None))
    create(store)
    with store.writing(name()) as writer:
        write_blobs(writer, OTHER)
    folder = store.layout.tmp / str(WriterId("sim", "boot0", "1", "00"))
    fs.mkdir(folder)
    fs.close(fs.create(folder / PINS))
    fs.fault = Fault(0, errno.ENOSPC, lasting=True)
    return store


def test_gc_works_on_a_full_disk():
    store = full_disk()

    collect(store)

    assert litter(store.fs.tree()) == []


def test_gc_says_what_it_freed_on_a_full_disk():
    assert len(collect(full_disk()).blobs) == 2


class SyncOfManifestsFails(FileSystem):
    """Has no space to make one directory durable, once."""

    def __init__(self):
        self.is_due = True

    def sync_directory(self, path):
        if path.name == "library" and self.is_due:
            self.is_due = False
            raise OSError(errno.ENOSPC, "no space left on device", str(path))
        super().sync_directory(path)


def test_gc_does_not_sync_again_what_failed(tmp_path):
    create(Store(tmp_path))
    put(Store(tmp_path), b"doomed")
    store = Store(tmp_path, SyncOfManifestsFails())

    with pytest.raises(OSError, match="no space"):
        collect(store)

    assert store.blobs.holds(ref_of(b"doomed"))
    assert list(store.layout.tmp.iterdir()) == []


class FullGraves(FileSystem):
    """Has no space for a third name in a directory below tmp/."""

    def rename(self, source, target):
        if target.name.startswith("gone-") and len(list(target.parent.iterdir())) > 5:
            raise OSError(
                errno.ENOSPC, "no space left on device", str(source), None, str(target)
            )
        super().rename(source, target)


def test_gc_removes_at_once_what_it_cannot_move_on_a_full_disk(tmp_path):
    create(Store(tmp_path))
    for number in range(9):
        put(Store(tmp_path), b"doomed %d" % number)

    plan = collect(Store(tmp_path, FullGraves()))

    assert len(plan.blobs) == 9
    assert check_store(tmp_path, after_gc=True) == []


def test_gc_fails_when_moving_fails_otherwise(tmp_path):
    class Broken(FileSystem):
        def rename(self, source, target):
            if target.name.startswith("gone-"):
                raise OSError(errno.EIO, "broken", str(source))
            super().rename(source, target)

    put(Store(tmp_path), b"doomed")

    with pytest.raises(OSError, match="broken"):
        collect(Store(tmp_path, Broken()))

    assert list((tmp_path / "tmp").iterdir()) == []


def test_gc_changes_nothing_when_there_is_nothing_to_do(store):
    create(store)
    before = snapshot(store.layout.root / "blobs"), snapshot(store.layout.root / "manifests")

    collect(store)

    assert (
        snapshot(store.layout.root / "blobs"),
        snapshot(store.layout.root / "manifests"),
    ) == before


def test_all_tensors_of_the_sample_are_different():
    assert len(set(TENSORS.values())) == len(TENSORS)


def test_an_interrupted_gc_leaves_nothing_of_what_it_moved_away(store, monkeypatch):
    create(store)
    create(store, tensors=OTHER)
    assert list(store.layout.history.iterdir()), "folders move, too"

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("store.gc.remove_tree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collect(store)

    assert list(store.layout.tmp.iterdir()) == []
