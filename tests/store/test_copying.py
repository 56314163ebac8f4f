"""From one store into another: equal digests, hashed where they arrive."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from store.copying import Copying, How
from store.errors import IntegrityError, StorageError
from store.store import Store
from store.verify import verify
from tests.store.builders import make_manifest, name, write_blobs


@pytest.fixture
def source(store):
    """A store with the model `m`."""
    with store.writing("m") as writer:
        write_blobs(writer)
        writer.publish(name(), make_manifest())
    return store


@pytest.fixture
def target(tmp_path):
    with Store(tmp_path / "target") as target:
        yield target


def copy(source, target, **how):
    return Copying(source, target, **how).copy(source.catalog.get(name()), name("n"))


def no_clones(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "ioctl", refuse)


def test_a_model_is_copied_with_its_digest(source, target, monkeypatch):
    no_clones(monkeypatch)
    done = copy(source, target, threads=2)

    assert target.catalog.get(name("n")).data == source.catalog.get(name()).data
    assert done.blobs == {How.COPIED: 3}
    assert done.replaced is None
    assert verify(target).findings == ()
    assert copy(source, target).blobs == {How.PRESENT: 3}


def test_blobs_share_their_bytes_where_the_file_system_can(source, target, monkeypatch):
    def clone(descriptor, request, other):
        assert request == 0x40049409
        os.pwrite(descriptor, os.pread(other, 1 << 20, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", clone)

    assert copy(source, target).blobs == {How.SHARED: 3}
    assert verify(target).findings == ()


def test_links_are_one_file_and_only_on_demand(source, target):
    done = copy(source, target, links=True)

    assert done.blobs == {How.LINKED: 3}
    for ref in make_manifest().blobs:
        here, there = (one.blobs.path(ref.digest) for one in (source, target))
        assert here.stat().st_ino == there.stat().st_ino
    assert verify(target).findings == ()


@pytest.mark.parametrize("links", [False, True])
def test_a_damaged_blob_gets_no_name(source, target, links):
    ref = make_manifest().layers[1].ref
    path = source.blobs.path(ref.digest)
    path.chmod(0o600)
    path.write_bytes(b"\0" * ref.size)

    with pytest.raises(IntegrityError, match="damaged"):
        copy(source, target, links=links)

    assert not target.blobs.holds(ref)
    assert target.catalog.find(name("n")) is None
    assert target.fs.entries(target.layout.tmp) == []


def test_a_link_that_cannot_be_made_is_said(source, target, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(target.fs, "link", refuse)

    with pytest.raises(StorageError, match="second name"):
        copy(source, target, links=True)
