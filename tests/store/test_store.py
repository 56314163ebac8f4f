from __future__ import annotations

import os

import pytest

from store.errors import IntegrityError, StorageError, UnsupportedError
from store.fs import FileSystem
from store.store import Store
from tests.check_store import check_store, snapshot
from tests.store.builders import create, make_manifest, name


def open_store(root, **options):
    with Store(root, **options) as store:
        store.prepare()
        return store


def test_opening_a_store_touches_nothing(tmp_path):
    with Store(tmp_path / "store") as store:
        assert not store.exists

    assert list(tmp_path.iterdir()) == []


def test_a_prepared_store_exists(tmp_path):
    assert open_store(tmp_path / "store").exists


def test_a_store_has_the_layout_of_the_design(store):
    names = {path.name for path in store.layout.root.iterdir()}

    assert names == {
        "blobs",
        "manifests",
        "tmp",
        "quarantine",
        "locks",
        "origins",
        "history",
        "VERSION",
    }


def test_a_new_store_is_for_its_owner_alone(store):
    assert store.layout.root.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_is_there_keeps_its_permissions(tmp_path):
    tmp_path.chmod(0o755)
    open_store(tmp_path)

    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_parents_are_made_on_the_way(tmp_path):
    assert open_store(tmp_path / "a" / "b" / "store").exists


def test_a_store_in_a_directory_of_somebody_else_is_made(tmp_path):
    class Shared(FileSystem):
        """The parent belongs to somebody else."""

        def status(self, path):
            seen = super().status(path)
            return seen and seen._replace(owner=seen.owner + (path == tmp_path))

    assert open_store(tmp_path / "store", fs=Shared()).exists


def test_preparing_again_changes_nothing(store):
    create(store)
    before = snapshot(store.layout.root)

    store.prepare()

    assert snapshot(store.layout.root) == before


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_store_is_made_whatever_the_umask(tmp_path, umask):
    previous = os.umask(umask)
    try:
        with Store(tmp_path / "store") as store:
            create(store)
    finally:
        os.umask(previous)

    assert store.layout.root.stat().st_mode & 0o777 == 0o700
    assert check_store(store.layout.root) == []


def test_a_link_to_another_disk_is_a_store(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "disk")
    with Store(tmp_path / "store") as store:
        create(store)

    assert check_store(tmp_path / "disk") == []


def test_blobs_may_be_linked_to_another_directory(store, tmp_path):
    (tmp_path / "disk").mkdir()
    store.layout.blobs.rmdir()
    store.layout.blobs.symlink_to(tmp_path / "disk")

    create(store)

    assert check_store(store.layout.root) == []


def test_a_store_that_ollama_made_is_written_to(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "manifests").mkdir()
    with Store(tmp_path) as store:
        create(store)

    assert check_store(tmp_path) == []


def test_a_relative_root_is_a_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store(type(tmp_path)("store")) as store:
        create(store)

    assert check_store(tmp_path / "store") == []


# M18 of reliability.md.
def test_the_version_is_written(store):
    assert store.layout.version.read_bytes() == b"1\n"


def test_a_newer_store_is_refused(store):
    store.layout.version.write_bytes(b"2\n")

    with pytest.raises(UnsupportedError) as caught:
        Store(store.layout.root)
    assert "is version 2, this ingot knows 1" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1.0", b"1 2", b"\xb2"])
def test_a_version_that_is_none_is_refused(store, content):
    store.layout.version.write_bytes(content)

    with pytest.raises(IntegrityError) as caught:
        Store(store.layout.root)
    assert caught.value.code == "E_VERSION"


def test_two_first_users_of_one_process_number_do_not_meet(tmp_path):
    """As in two containers, where everybody is process 1."""
    first, second = Store(tmp_path, Numbered()), Store(tmp_path, Numbered())
    first.fs.meanwhile = second.prepare

    first.prepare()

    assert first.layout.version.read_bytes() == b"1\n"
    assert list(first.layout.tmp.iterdir()) == []


class Numbered(FileSystem):
    """Lets somebody else in before the version is written."""

    meanwhile = None

    def process(self):
        return 1

    def write(self, file, data):
        if self.meanwhile is not None and file.path.name.startswith("VERSION"):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().write(file, data)


# M16 of reliability.md.
@pytest.mark.parametrize("directory", [".", "blobs"])
def test_a_store_that_everybody_can_write_to_is_refused(store, directory):
    (store.layout.root / directory).chmod(0o777)

    with pytest.raises(StorageError) as caught:
        store.prepare()
    assert (caught.value.code, caught.value.exit_code) == ("E_STORE_UNSAFE", 8)


def test_a_sticky_directory_protects_what_is_in_it(store):
    store.layout.root.chmod(0o1777)

    store.prepare()


def test_who_knows_who_can_write_there_may_allow_it(store):
    store.layout.root.chmod(0o777)

    Store(store.layout.root, allow_unsafe=True).prepare()


class ErrorBoundCheck(FileSystem):
    """Everything belongs to somebody else."""

    def status(self, path):
        seen = super().status(path)
        return seen and seen._replace(owner=os.geteuid() + 12345)


def test_a_store_of_another_user_is_refused(store):
    with pytest.raises(StorageError) as caught:
        Store(store.layout.root, ErrorBoundCheck()).prepare()

    assert "belongs to another user" in str(caught.value)


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "store").write_bytes(b"x")

    with pytest.raises(StorageError, match="is a file, expected a directory"):
        Store(tmp_path / "store").prepare()


def test_a_model_survives_the_process(store):
    create(store)

    with Store(store.layout.root) as later:
        assert later.catalog.get(name()).parse() == make_manifest()


def test_what_was_written_is_known_to_the_next_process(store):
    create(store)
    store.close()

    with Store(store.layout.root) as later:
        ref = make_manifest().config.ref
        assert later.memo.knows(ref.digest, later.blobs.status(ref.digest))


def test_deleting_the_memo_changes_nothing(store):
    create(store)
    store.close()
    store.layout.memo.unlink()

    create(store)

    assert check_store(store.layout.root) == []


class LossyVersion(FileSystem):
    """Writes a version a byte short and says nothing."""

    def write(self, file, data):
        short = len(data) - file.path.name.startswith("VERSION")
        super().write(file, memoryview(data)[:short])


def test_a_version_that_did_not_arrive_whole_is_not_believed(tmp_path):
    with pytest.raises(IntegrityError) as caught:
        Store(tmp_path, LossyVersion()).prepare()

    assert caught.value.code == "E_SHORT_WRITE"
    assert list((tmp_path / "tmp").iterdir()) == []
    Store(tmp_path).prepare()
