"""What names stood for before: kept at no cost, brought back, gone with gc."""

from __future__ import annotations

import os

import pytest

from store.fs import FileSystem
from store.gc import GarbageCollector
from store.store import Store
from store.writer import BlobsGoneError
from tests.store.builders import OTHER, create, digest_of, make_manifest, name

FIRST = digest_of(make_manifest().to_bytes())


def digests(store, model=None):
    return [one.digest for one in store.history.read(model)]


def restore(store, former, target="m"):
    with store.writing("") as writer:
        return writer.copy(former, name(target))


def test_a_new_name_has_no_history(store):
    create(store)

    assert store.history.read() == []


def test_what_was_replaced_is_known(store):
    create(store)
    set_at = store.catalog.path(name()).stat().st_mtime_ns
    create(store, tensors=OTHER)

    (former,) = store.history.read(name())

    assert (former.name, former.digest, former.mtime_ns) == (name(), FIRST, set_at)
    assert former.parse() == make_manifest()


def test_what_was_removed_is_known(store):
    create(store)
    store.remove([name()])

    assert digests(store) == [FIRST]


def test_what_was_copied_over_is_known(store):
    create(store)
    create(store, "other", OTHER)
    with store.writing("") as writer:
        writer.copy(name("other"), name())

    assert digests(store, name()) == [FIRST]


def test_a_model_that_was_created_again_unchanged_has_no_history(store):
    create(store)
    create(store)

    assert store.history.read() == []


def test_the_history_of_a_name_is_its_own(store):
    for model in ("m", "other", "host.example/me/m"):
        create(store, model)
        create(store, model, OTHER)
    store.remove([name("m")])

    assert digests(store, name("other")) == [FIRST]
    assert len(digests(store, name("m"))) == 2
    assert len(digests(store)) == 4


def test_a_manifest_takes_no_space_twice(store):
    create(store)
    manifest = store.catalog.path(name()).stat()
    create(store, tensors=OTHER)

    (former,) = store.history.listed()

    assert former.path.stat().st_ino == manifest.st_ino


def test_the_latest_comes_first_however_often_it_was_replaced(store):
    for number, tensors in enumerate((None, OTHER, None, OTHER)):
        create(store, tensors=tensors) if tensors else create(store)
        os.utime(store.catalog.path(name()), ns=(0, number * 10**9))

    assert [one.mtime_ns for one in store.history.read()] == [2 * 10**9, 10**9]
    assert digests(store)[0] == FIRST


def test_what_was_is_brought_back(store):
    create(store)
    create(store, tensors=OTHER)
    (former,) = store.history.read()

    replaced = restore(store, former)

    assert store.catalog.get(name()).digest == FIRST
    assert replaced is not None
    assert replaced.digest in digests(store)
    assert list((store.layout.tmp).iterdir()) == []


def test_it_is_brought_back_under_another_name(store):
    create(store)
    store.remove([name()])
    (former,) = store.history.read()

    assert restore(store, former, "back") is None
    assert store.catalog.get(name("back")).digest == FIRST


def test_what_lost_blobs_is_not_brought_back(store):
    create(store)
    store.remove([name()])
    (former,) = store.history.read()
    for _, digest, _ in store.blobs.digests():
        store.blobs.path(digest).unlink()

    with pytest.raises(BlobsGoneError) as caught:
        restore(store, former)
    assert len(caught.value.gone) == 3
    assert store.catalog.find(name()) is None


def test_gc_empties_history_and_says_so(store):
    create(store)
    create(store, tensors=OTHER)
    create(store, "other")

    plan = GarbageCollector(store).plan()
    done = GarbageCollector(store).run()

    assert [(one.name, one.digest) for one in plan.former] == [(name(), FIRST)]
    assert done == plan
    assert done.blobs == ()  # `other` needs them
    assert not done.is_empty
    assert list(store.layout.history.iterdir()) == []
    assert GarbageCollector(store).plan().is_empty


def test_gc_removes_what_is_not_ours_in_history_too(store, tmp_path):
    create(store)
    (tmp_path / "precious").write_bytes(b"x")
    (store.layout.history / "link").symlink_to(tmp_path)
    (store.layout.history / "host" / "a" / "b" / "c" / "d").mkdir(parents=True)

    GarbageCollector(store).run()

    assert list(store.layout.history.iterdir()) == []
    assert (tmp_path / "precious").exists()


def test_what_is_not_what_it_is_called_is_not_history(store):
    create(store)
    create(store, tensors=OTHER)
    (former,) = store.history.listed()
    former.path.unlink()
    former.path.write_bytes(b"{}")
    (former.path.parent / "README").write_bytes(b"")
    (store.layout.history / "not a host" / "a" / "b" / "c").mkdir(parents=True)

    assert store.history.read() == []


def test_nothing_is_kept_behind_a_link(store, tmp_path):
    create(store)
    (tmp_path / "elsewhere").mkdir()
    (store.layout.history / name().host).symlink_to(tmp_path / "elsewhere")
    create(store, tensors=OTHER)

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert list(store.layout.tmp.iterdir()) == []


class WithoutLinks(FileSystem):
    """A file system such as FAT, or one that is full."""

    def link(self, source, target):
        raise OSError(1, "operation not permitted", str(source), None, str(target))


def test_history_never_stands_in_the_way(tmp_path):
    store = Store(tmp_path, WithoutLinks())
    create(store)
    create(store, tensors=OTHER)
    store.remove([name()])

    assert store.history.read() == []


class ReadsNothing(FileSystem):
    """A device that fails and calls files empty; only what is about to become history."""

    def read(self, file, size, offset):
        return b"" if "former-" in str(file.path) else super().read(file, size, offset)


def test_what_could_not_be_read_gets_no_name(tmp_path):
    store = Store(tmp_path, ReadsNothing())
    create(store)
    create(store, tensors=OTHER)

    assert list(store.history.listed()) == []


def test_a_store_without_history_has_none(store):
    store.layout.history.rmdir() if store.layout.history.exists() else None

    assert store.history.read() == []
    assert store.history.roots() == []
