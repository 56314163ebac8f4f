from __future__ import annotations

import contextlib
import os

import pytest

from store.blob_writer import BlobWriter
from store.errors import IntegrityError
from tests.store.builders import name, ref_of


@pytest.fixture
def path(store):
    with store.writing(name()) as writer:
        yield writer.open()


@pytest.fixture
def blob(store, path):
    with contextlib.closing(BlobWriter(store.fs, path)) as blob:
        yield blob


def test_the_buffer_of_a_chunk_may_be_used_again(blob):
    buffer = bytearray(b"first")
    blob.write(buffer)
    buffer[:] = b"other"
    blob.write(buffer)

    assert blob.finish() == ref_of(b"firstother")


def test_the_bytes_are_in_the_file(blob, path):
    blob.place(b"tail", 4)
    blob.write(b"head")
    blob.hash_placed(4, memoryview(bytearray(3)))

    assert blob.finish() == ref_of(b"headtail")
    assert path.read_bytes() == b"headtail"


def test_what_was_placed_and_never_hashed_is_missed(blob):
    blob.write(b"head")
    blob.place(b"tail", 4)

    with pytest.raises(IntegrityError, match="8 bytes after 4"):
        blob.finish()


def test_a_blob_with_a_gap_is_refused(blob):
    blob.write(b"head")
    blob.place(b"tail", 8)
    for piece in (b"lost", b"tail"):
        blob.hash(piece)
    with pytest.raises(IntegrityError) as caught:
        blob.finish()

    assert caught.value.code == "E_SHORT_WRITE"


def test_what_was_never_placed_cannot_be_hashed_from_the_file(blob):
    blob.write(b"head")
    with pytest.raises(IntegrityError, match="has 4 bytes after 8"):
        blob.hash_placed(4, memoryview(bytearray(4)))


def test_nothing_is_made_where_no_owner_made_a_file(store, tmp_path):
    with pytest.raises(FileNotFoundError):
        BlobWriter(store.fs, tmp_path / "0.partial")


def test_a_link_is_not_followed(store, tmp_path):
    (tmp_path / "victim").write_bytes(b"")
    os.symlink(tmp_path / "victim", tmp_path / "0.partial")

    with pytest.raises(OSError, match=r"0\.partial"):
        BlobWriter(store.fs, tmp_path / "0.partial")
