"""A store that a group shares: what one member makes, the others may use and replace."""

from __future__ import annotations

import os
import stat

import pytest

from store.errors import StorageError
from store.gc import GarbageCollector
from store.status import Kind, Status
from store.store import Store
from tests.store.builders import make_manifest, name, write_blobs


def filled(root):
    mask = os.umask(0o077)
    try:
        with Store(root) as store:
            with store.writing("m") as writer:
                write_blobs(writer)
                writer.publish(name(), make_manifest())
            with store.writing("m") as writer:
                writer.copy(name(), name("n"))
            GarbageCollector(store).run()
    finally:
        os.umask(mask)
    return {
        path.relative_to(root): stat.S_IMODE(path.lstat().st_mode) for path in root.rglob("*")
    }


@pytest.fixture
def root(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o2770)
    return tmp_path / "store"


def test_the_group_may_do_what_the_owner_may_whatever_the_umask(root):
    modes = filled(root)

    blobs = {path: mode for path, mode in modes.items() if path.parts[0] == "blobs"}
    others = {path: mode for path, mode in modes.items() if path not in blobs}
    assert {mode for path, mode in blobs.items() if len(path.parts) > 1} == {0o444}
    for path, mode in others.items():
        assert (mode >> 3 & 7) == (mode >> 6 & 7), path
        assert not mode & 0o002
        if (root / path).is_dir():
            assert mode & stat.S_ISGID, path


@pytest.mark.parametrize("mode", [0o770, 0o2750, 0o700])
def test_no_other_store_is_the_groups(root, mode):
    root.chmod(mode)

    assert {path for path, mode in filled(root).items() if mode & 0o020} == set()


def test_another_member_may_own_what_the_group_may_write(root, monkeypatch):
    filled(root)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with Store(root) as store:
        real = store.fs.status

        def of_another(path):
            seen = real(path)
            return seen and Status(*seen[:6], owner=4321)

        store.fs.status = of_another
        store.prepare()
        root.chmod(0o2750)
        with pytest.raises(StorageError, match="another user"):
            store.prepare()
        assert store.fs.status(root).kind is Kind.DIRECTORY
