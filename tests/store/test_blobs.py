from __future__ import annotations

import array
import errno
import os

import pytest

from store.blobs import BlobRef, CommitOutcome, missing
from store.digest import Digest
from store.errors import IntegrityError
from store.fs import FileSystem
from store.status import Kind
from store.store import Store
from tests.store.builders import digest_of, name, ref_of

CONTENT = b"ore" * 100
REF = ref_of(CONTENT)


def put(store, content=CONTENT):
    with store.writing(name()) as writer:
        return writer.put(content)


def damage(store, content):
    path = store.blobs.path(REF.digest)
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def content_of(store):
    return store.blobs.path(REF.digest).read_bytes()


def quarantined(store):
    return sorted(path.name for path in store.layout.quarantine.iterdir())


def test_a_new_blob_is_new(store):
    assert put(store) == (REF, CommitOutcome.NEW)


def test_a_blob_has_the_content_that_was_written(store):
    put(store)

    assert content_of(store) == CONTENT


def test_a_blob_can_only_be_read(store):
    put(store)

    assert store.blobs.path(REF.digest).stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_a_blob_can_be_read_by_all_whatever_the_umask(store, umask):
    previous = os.umask(umask)
    try:
        put(store)
    finally:
        os.umask(previous)

    assert store.blobs.path(REF.digest).stat().st_mode & 0o777 == 0o444


def test_an_empty_blob_is_a_blob(store):
    assert put(store, b"") == (ref_of(b""), CommitOutcome.NEW)


def test_a_blob_that_is_there_is_reused(store):
    put(store)

    assert put(store) == (REF, CommitOutcome.REUSED)


def test_a_known_blob_is_not_touched(store):
    put(store)
    before = store.blobs.status(REF.digest)

    put(store)

    assert store.blobs.status(REF.digest) == before


def test_what_was_not_synced_is_known_to_nobody(store):
    hasty = Store(store.layout.root)
    hasty.fs.is_durable = False
    put(hasty)
    hasty.close()

    assert put(store) == (REF, CommitOutcome.RENEWED)


def test_a_blob_that_the_memo_does_not_know_is_renewed(store):
    put(store)
    damage(store, bytes(REF.size))
    store.memo.forget(REF.digest)

    put(store)

    assert content_of(store) == CONTENT


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x"])
def test_a_blob_of_another_size_is_healed(store, content):
    damage(store, content)

    assert put(store) == (REF, CommitOutcome.REPAIRED)
    assert content_of(store) == CONTENT


def test_a_bad_blob_is_kept_in_quarantine(store):
    damage(store, b"bad")
    put(store)

    assert quarantined(store) == [f"{REF.digest.file_name}.1"]
    assert (store.layout.quarantine / f"{REF.digest.file_name}.1").read_bytes() == b"bad"


def test_quarantine_keeps_each_bad_copy(store):
    for content in (b"bad", b"worse"):
        damage(store, content)
        put(store)

    assert len(quarantined(store)) == 2


# M11, M12 of reliability.md.
def test_a_blob_that_is_a_link_is_replaced_and_its_target_is_not_touched(store, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(CONTENT)
    store.blobs.path(REF.digest).symlink_to(target)

    put(store)

    assert store.blobs.status(REF.digest).kind is Kind.FILE
    assert (target.read_bytes(), target.stat().st_nlink) == (CONTENT, 1)


def test_a_blob_that_is_a_directory_is_replaced(store):
    path = store.blobs.path(REF.digest)
    path.mkdir()
    (path / "file").write_bytes(b"x")

    assert put(store)[1] is CommitOutcome.REPAIRED
    assert content_of(store) == CONTENT


def test_a_blob_that_is_a_fifo_is_replaced(store):
    os.mkfifo(store.blobs.path(REF.digest))

    assert put(store)[1] is CommitOutcome.REPAIRED
    assert content_of(store) == CONTENT


@pytest.mark.parametrize(
    "chunk",
    [
        bytearray(b"12345678"),
        memoryview(b"12345678"),
        memoryview(array.array("I", [1, 2])),
        memoryview(bytearray(b"12345678")).cast("B", (2, 4)),
    ],
    ids=["bytearray", "bytes", "integers", "matrix"],
)
def test_a_chunk_is_its_bytes_whatever_its_items_are(store, chunk):
    assert put(store, chunk) == (ref_of(bytes(chunk)), CommitOutcome.NEW)


class Lossy(FileSystem):
    """Writes a byte less than it says."""

    def write_at(self, file, data, offset):
        super().write_at(file, memoryview(data)[:-1], offset)


def test_bytes_that_did_not_arrive_are_missed(tmp_path):
    with Store(tmp_path, Lossy()) as store, pytest.raises(IntegrityError) as caught:
        put(store)

    assert caught.value.code == "E_SHORT_WRITE"
    assert list(store.layout.blobs.iterdir()) == []


class WithoutLinks(FileSystem):
    """Has no hard links, as exFAT and some network file systems."""

    def link(self, source, target):
        raise PermissionError(errno.EPERM, "not permitted", str(source), None, str(target))


def test_a_blob_is_healed_where_there_are_no_hard_links(tmp_path):
    with Store(tmp_path, WithoutLinks()) as store:
        store.prepare()
        damage(store, b"bad")

        assert put(store)[1] is CommitOutcome.REPAIRED
        assert content_of(store) == CONTENT


def test_a_blob_is_held_when_name_and_size_fit(store):
    put(store)

    assert store.blobs.holds(REF)
    assert not store.blobs.holds(BlobRef(REF.digest, REF.size + 1))
    assert not store.blobs.holds(ref_of(b"other"))


def test_a_directory_is_no_blob(store):
    store.blobs.path(REF.digest).mkdir()

    assert not store.blobs.holds(REF)


def test_a_small_blob_is_read_whole(store):
    put(store)

    assert store.blobs.read(REF, 1000) == CONTENT


@pytest.mark.parametrize(
    ("ref", "limit", "code"),
    [
        (REF, REF.size - 1, "E_LIMIT"),
        (BlobRef(REF.digest, REF.size - 1), 1000, "E_BLOB_SIZE"),
        (BlobRef(REF.digest, REF.size + 1), 1000, "E_BLOB_SIZE"),
        (ref_of(b"none"), 1000, "E_BLOB_MISSING"),
    ],
)
def test_a_blob_that_is_not_as_it_should_be_is_not_read(store, ref, limit, code):
    put(store)

    with pytest.raises(IntegrityError) as caught:
        store.blobs.read(ref, limit)
    assert caught.value.code == code


def test_a_missing_blob_cannot_be_opened(store):
    with pytest.raises(IntegrityError, match="is missing"), store.blobs.open(REF.digest):
        pass


def test_a_missing_blob_is_named():
    assert str(REF.digest) in str(missing(REF.digest))


def test_a_blob_is_hashed_from_its_beginning(store):
    put(store)
    told = []

    with store.blobs.open(REF.digest) as file:
        assert store.blobs.digest_of(file, told.append) == REF.digest
    assert sum(told) == REF.size


def test_a_blob_larger_than_a_chunk_is_hashed(store):
    content = bytes(range(256)) * 8200
    put(store, content)

    with store.blobs.open(digest_of(content)) as file:
        assert store.blobs.digest_of(file) == digest_of(content)


def test_foreign_names_are_listed_without_a_digest(store):
    put(store)
    for foreign in ("sha256-x", ".DS_Store", "a.tmp", f"{REF.digest.file_name}-partial"):
        (store.layout.blobs / foreign).write_bytes(b"")

    listed = list(store.blobs.digests())

    assert len(listed) == 5
    assert [digest for _, digest, _ in listed if digest] == [REF.digest]


def test_a_digest_is_found_by_its_file_name(store):
    put(store)

    ((file_name, digest, kind),) = store.blobs.digests()

    assert (file_name, digest, kind) == (REF.digest.file_name, Digest.of(CONTENT), Kind.FILE)
