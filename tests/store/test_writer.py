from __future__ import annotations

import contextlib
import errno
import os
import threading

import pytest

from store.blob_writer import BlobWriter
from store.blobs import CommitOutcome
from store.errors import (
    BusyError,
    IntegrityError,
    NotFoundError,
    StorageError,
    UsageError,
)
from store.fs import FileSystem
from store.gc import GarbageCollector
from store.store import Store
from store.writer import BlobsGoneError
from store.writer_folder import LOCK, PINS, PURPOSE, WriterId
from tests.store.builders import (
    OTHER,
    TENSORS,
    create,
    half_a_blob,
    make_manifest,
    name,
    ref_of,
    tensor_blob,
    write_blobs,
)
from tests.store.judge import ROOT
from tests.store.sim_fs import home


class Failing(FileSystem):
    """Fails a write to the files of one name, after half of it was written."""

    def __init__(self, file_name):
        self.file_name = file_name
        self.is_broken = True

    def write(self, file, data):
        if self.is_broken and file.path.name == self.file_name:
            super().write(file, memoryview(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no space left on device", str(file.path))
        super().write(file, data)

    def write_at(self, file, data, offset):
        if self.is_broken and file.path.name == self.file_name:
            super().write_at(file, memoryview(data)[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, "no space left on device", str(file.path))
        super().write_at(file, data, offset)


def test_a_document_is_written_again_where_the_store_is_distrusted_or_repaired(store):
    with store.writing(name("a")) as writer:
        ref, _ = writer.put(b"x")
    with store.writing(name("a")) as writer:
        writer.distrust()
        assert writer.put(b"x") == (ref, CommitOutcome.RENEWED)
    with store.writing(name("a")) as writer:
        writer.accept_only(frozenset())
        assert writer.put(b"x") == (ref, CommitOutcome.REFUSED)


def test_a_document_that_the_store_has_is_not_written_again(store, monkeypatch):
    with store.writing(name("a")) as writer:
        ref, outcome = writer.put(b"x")
        assert outcome is CommitOutcome.NEW
    with store.writing(name("a")) as writer:
        monkeypatch.setattr(writer, "open", lambda: pytest.fail("a file was made"))
        assert writer.put(b"x") == (ref, CommitOutcome.REUSED)


def folders(store):
    return list(store.layout.tmp.iterdir())


def pins(writer):
    return (writer.folder / PINS).read_text().split()


def test_a_writer_has_a_folder_with_a_lock_its_pins_and_a_purpose(store):
    with store.writing(name()) as writer:
        assert {path.name for path in writer.folder.iterdir()} == {LOCK, PINS, PURPOSE}


def test_a_writer_says_what_it_is_doing(store):
    with store.writing(name("me/m:q4")) as writer:
        assert (writer.folder / PURPOSE).read_text() == "me/m:q4"


def test_the_folder_tells_whose_it_is(store):
    with store.writing(name()) as writer:
        identity = WriterId.parse(writer.folder.name)

    assert (identity.host, identity.boot) == store.fs.machine()
    assert identity.pid == str(store.fs.process())


def test_the_folder_of_a_writer_can_be_entered_by_its_owner_alone(store):
    with store.writing(name()) as writer:
        assert writer.folder.stat().st_mode & 0o777 == 0o700


def test_a_closed_writer_leaves_nothing(store):
    with store.writing(name()) as writer:
        writer.put(b"x")
        half_a_blob(writer)

    assert folders(store) == []


def test_a_writer_that_fails_leaves_nothing(store):
    with contextlib.suppress(ZeroDivisionError), store.writing(name()) as writer:
        half_a_blob(writer)
        1 / 0  # noqa: B018

    assert folders(store) == []


def test_a_writer_may_be_closed_twice(store):
    with store.writing(name()) as writer:
        writer.close()

    assert folders(store) == []


def test_closing_the_store_closes_its_writers(store):
    context = store.writing(name())
    context.__enter__()

    store.close()

    assert folders(store) == []
    context.__exit__(None, None, None)


def test_a_partial_file_is_empty_and_its_owners_alone(store):
    with store.writing(name()) as writer:
        path = writer.open()

        assert path.parent == writer.folder
        assert (path.stat().st_size, path.stat().st_mode & 0o777) == (0, 0o600)


def test_a_committed_blob_has_the_bytes_of_its_maker(store):
    with store.writing(name()) as writer:
        path = writer.open()
        with contextlib.closing(BlobWriter(FileSystem(), path)) as blob:
            blob.write(b"made elsewhere")
            ref = blob.finish()

        assert writer.commit(path, ref) is CommitOutcome.NEW
        assert store.blobs.path(ref.digest).read_bytes() == b"made elsewhere"


def test_a_maker_that_says_another_size_is_refused(store):
    with store.writing(name()) as writer:
        path = half_a_blob(writer)
        with pytest.raises(IntegrityError) as caught:
            writer.commit(path, ref_of(b"half of it, and the rest"))

    assert caught.value.code == "E_SHORT_WRITE"
    assert list(store.layout.blobs.iterdir()) == []


def test_a_blob_that_is_given_up_leaves_nothing(store):
    with store.writing(name()) as writer:
        path = half_a_blob(writer)
        writer.discard(path)
        writer.discard(path)

        assert not path.exists()


def test_a_committed_blob_cannot_be_given_up(store):
    with store.writing(name()) as writer:
        path = writer.open()
        with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
            blob.write(b"x")
            ref = blob.finish()
        writer.commit(path, ref)
        writer.discard(path)

        assert store.blobs.holds(ref)


def test_a_closed_writer_has_no_descriptor_open(store):
    before = set(os.listdir("/dev/fd"))
    with store.writing(name()) as writer:
        half_a_blob(writer)
        writer.put(b"x")
        with contextlib.suppress(IntegrityError):
            writer.commit(half_a_blob(writer), ref_of(b"y"))

    assert set(os.listdir("/dev/fd")) == before


def test_a_disk_that_failed_before_the_sync_is_noticed():
    fs = home()
    with Store(ROOT, fs) as store, store.writing(name()) as writer:
        path = writer.open()
        with contextlib.closing(BlobWriter(fs, path)) as blob:
            blob.write(b"x")
            ref = blob.finish()
        fs.fail_write_back(path)
        with pytest.raises(OSError, match="error"):
            writer.commit(path, ref)

        assert not store.blobs.holds(ref)


def test_each_blob_is_pinned(store):
    with store.writing(name()) as writer:
        write_blobs(writer)

        assert set(pins(writer)) == {str(ref.digest) for ref in make_manifest().blobs}


def test_a_blob_that_is_written_twice_is_pinned_once(store):
    with store.writing(name()) as writer:
        writer.put(b"x")
        writer.put(b"x")

        assert pins(writer) == [str(ref_of(b"x").digest)]


def test_a_blob_that_is_reused_is_pinned(store):
    create(store)

    with store.writing(name("other")) as writer:
        content = tensor_blob("a.weight", TENSORS["a.weight"])
        assert writer.put(content)[1] is CommitOutcome.REUSED
        assert pins(writer) == [str(ref_of(content).digest)]


def test_after_a_torn_pin_nothing_is_committed(tmp_path):
    fs = Failing(PINS)
    with Store(tmp_path, fs) as store, store.writing(name()) as writer:
        with pytest.raises(OSError, match="no space"):
            writer.put(b"first")
        fs.is_broken = False

        with pytest.raises(StorageError) as caught:
            writer.put(b"second")

    assert caught.value.code == "E_PIN"


def test_what_was_pinned_before_a_torn_pin_is_still_committed(tmp_path):
    fs = Failing(PINS)
    fs.is_broken = False
    with Store(tmp_path, fs) as store, store.writing(name()) as writer:
        writer.put(b"first")
        fs.is_broken = True
        with pytest.raises(OSError, match="no space"):
            writer.put(b"second")

        assert writer.put(b"first")[1] is CommitOutcome.REUSED


@pytest.mark.parametrize("file_name", ["0.partial", PINS, PURPOSE, "1.manifest"])
def test_a_full_disk_leaves_no_litter_and_the_old_tag(tmp_path, file_name):
    fs = Failing(file_name)
    fs.is_broken = False
    store = Store(tmp_path, fs)
    create(store)
    fs.is_broken = True

    with contextlib.suppress(OSError), store.writing(name()) as writer:
        writer.put(b"{}")
        writer.publish(name(), make_manifest({}, b"{}"))

    assert folders(store) == []
    assert store.catalog.get(name()).parse() == make_manifest()
    store.close()


def test_publishing_gives_what_was_there_before(store):
    create(store)

    with store.writing(name()) as writer:
        write_blobs(writer, OTHER)
        _, previous = writer.publish(name(), make_manifest(OTHER))

    assert previous.parse() == make_manifest()


def test_the_first_publication_replaces_nothing(store):
    with store.writing(name()) as writer:
        write_blobs(writer)

        assert writer.publish(name(), make_manifest()).previous is None


def test_a_manifest_can_be_read_by_all_who_may_enter(store):
    create(store)

    assert store.catalog.path(name()).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("damage", ["gone", "short", "directory"])
def test_a_manifest_whose_blobs_are_not_there_is_not_published(store, damage):
    bad = ref_of(tensor_blob("a.weight", TENSORS["a.weight"]))
    path = store.blobs.path(bad.digest)

    with store.writing(name()) as writer:
        write_blobs(writer)
        path.unlink()
        if damage == "short":
            path.write_bytes(b"x")
        elif damage == "directory":
            path.mkdir()
        with pytest.raises(BlobsGoneError) as caught:
            writer.publish(name(), make_manifest())

    assert (caught.value.gone, caught.value.exit_code) == ((bad,), 5)
    assert store.catalog.find(name()) is None


def test_a_blob_that_is_gone_can_be_made_again_and_published(store):
    with store.writing(name()) as writer:
        write_blobs(writer)
        store.blobs.path(ref_of(tensor_blob("a.weight", TENSORS["a.weight"])).digest).unlink()
        with pytest.raises(BlobsGoneError):
            writer.publish(name(), make_manifest())
        write_blobs(writer)
        writer.publish(name(), make_manifest())

    assert store.catalog.get(name()).parse() == make_manifest()


def test_a_torn_manifest_is_replaced(store):
    create(store)
    store.catalog.path(name()).write_bytes(b"")

    create(store)

    assert store.catalog.get(name()).parse() == make_manifest()


class LossyManifests(FileSystem):
    """Writes manifests a byte short and says nothing."""

    def write(self, file, data):
        short = len(data) - (file.path.suffix == ".manifest")
        super().write(file, memoryview(data)[:short])


def test_a_manifest_that_did_not_arrive_whole_is_not_published(tmp_path):
    create(Store(tmp_path))
    store = Store(tmp_path, LossyManifests())

    with pytest.raises(IntegrityError) as caught:
        create(store, tensors=OTHER)
    with pytest.raises(IntegrityError, match="after"), store.writing(name("copy")) as writer:
        writer.copy(name(), name("copy"))

    assert caught.value.code == "E_SHORT_WRITE"
    assert store.catalog.get(name()).parse() == make_manifest()
    assert store.catalog.find(name("copy")) is None
    assert folders(store) == []


def test_a_copy_has_the_same_bytes(store):
    create(store)

    with store.writing(name("copy")) as writer:
        writer.copy(name(), name("copy"))

    assert store.catalog.get(name("copy")).data == store.catalog.get(name()).data


def test_a_copy_keeps_what_we_do_not_understand(store):
    create(store)
    path = store.catalog.path(name())
    path.write_bytes(path.read_bytes().replace(b'{"schema', b'{"x": [1], "schema'))

    with store.writing(name("copy")) as writer:
        writer.copy(name(), name("copy"))

    assert store.catalog.get(name("copy")).data == path.read_bytes()


def test_a_copy_gives_what_was_there_before(store):
    create(store)
    create(store, "other", OTHER)

    with store.writing(name("other")) as writer:
        previous = writer.copy(name(), name("other"))

    assert previous.parse() == make_manifest(OTHER)


def test_what_is_not_there_is_not_copied(store):
    with store.writing("copy") as writer, pytest.raises(NotFoundError):
        writer.copy(name(), name("copy"))


def test_what_cannot_be_read_is_not_copied(store):
    create(store)
    store.catalog.path(name()).write_bytes(b"")

    with store.writing("copy") as writer, pytest.raises(IntegrityError):
        writer.copy(name(), name("copy"))


def test_what_has_lost_a_blob_is_not_copied(store):
    create(store)
    next(store.layout.blobs.iterdir()).unlink()

    with store.writing("copy") as writer, pytest.raises(BlobsGoneError):
        writer.copy(name(), name("copy"))


def test_a_copy_to_a_name_that_differs_in_case_is_refused(store):
    create(store)

    with store.writing("M") as writer, pytest.raises(UsageError):
        writer.copy(name(), name("M"))


def test_threads_may_share_a_writer(store):
    contents = [f"blob {number % 20}".encode() for number in range(200)]
    errors = []

    def work(part):
        try:
            for content in part:
                writer.put(content)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    with store.writing(name()) as writer:
        threads = [threading.Thread(target=work, args=(contents[k::8],)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pinned = pins(writer)

    assert errors == []
    assert sorted(pinned) == sorted({str(ref_of(content).digest) for content in contents})


def test_a_living_writer_keeps_what_it_has_pinned(store):
    with store.writing(name()) as writer:
        write_blobs(writer)
        GarbageCollector(store).run()
        writer.publish(name(), make_manifest())

    assert all(store.blobs.holds(ref) for ref in make_manifest().blobs)


class OtherDisk(FileSystem):
    """Has blobs/ on another file system than tmp/: M17 of reliability.md."""

    def rename(self, source, target):
        if target.parent.name == "blobs":
            raise OSError(errno.EXDEV, "cross-device link", str(source), None, str(target))
        super().rename(source, target)


def test_a_store_on_two_disks_is_refused(tmp_path):
    with (
        Store(tmp_path, OtherDisk()) as store,
        store.writing(name()) as writer,
        pytest.raises(StorageError) as caught,
    ):
        writer.put(b"x")

    assert caught.value.code == "E_XDEV"


def test_a_writer_does_not_wait_for_ever(store, monkeypatch):
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)

    with store.lock.exclusive(0), pytest.raises(BusyError), store.writing(name()):
        pass


def test_a_repair_puts_back_what_is_wanted_and_keeps_the_bad_copy(store):
    create(store)
    content = tensor_blob("a.weight", TENSORS["a.weight"])
    ref = ref_of(content)
    path = store.blobs.path(ref.digest)
    path.chmod(0o600)
    path.write_bytes(bytes(ref.size))
    store.memo.forget(ref.digest)

    with store.writing("") as writer:
        writer.accept_only(frozenset({ref}))
        done = writer.put(content)

    assert done == (ref, CommitOutcome.REPAIRED)
    assert path.read_bytes() == content
    (kept,) = store.layout.quarantine.iterdir()
    assert kept.read_bytes() == bytes(ref.size)


def test_a_repair_refuses_everything_else_and_leaves_nothing_of_it(store):
    with store.writing("") as writer:
        writer.accept_only(frozenset({ref_of(b"wanted")}))

        done = writer.put(b"something else")

        assert done == (ref_of(b"something else"), CommitOutcome.REFUSED)
        assert pins(writer) == []
        assert {path.name for path in writer.folder.iterdir()} == {LOCK, PINS}
    assert list(store.layout.blobs.iterdir()) == []


def test_a_repair_leaves_what_was_healed_since(store):
    content = tensor_blob("a.weight", TENSORS["a.weight"])
    create(store)

    with store.writing("") as writer:
        writer.accept_only(frozenset({ref_of(content)}))
        done = writer.put(content)

    assert done == (ref_of(content), CommitOutcome.REUSED)
    assert list(store.layout.quarantine.iterdir()) == []
