"""Partial files that outlive their writer: resumed by another, or freed by gc."""

from __future__ import annotations

import contextlib
import os

import pytest

from store.blob_writer import BlobWriter
from store.gc import GarbageCollector
from store.store import Store
from tests.store.builders import ref_of

CONTENT = b"0123456789" * 100
REF = ref_of(CONTENT)


def leave(store, content, digest=REF.digest):
    """Have a writer end with a part of a blob."""
    with store.writing("m") as writer:
        path = writer.partials.resume(digest)
        with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
            blob.write(content)


def finish(store):
    """Complete the blob; give how many bytes were there."""
    with store.writing("m") as writer:
        path = writer.partials.resume(REF.digest)
        with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
            have = blob.take_over(memoryview(bytearray(64)))
            blob.write(CONTENT[have:])
            ref = blob.finish()
        assert ref == REF
        writer.commit(path, ref)
    return have


@pytest.mark.parametrize("have", [1, 64, 500, 1000])
def test_another_writer_goes_on_where_one_ended(store, have):
    leave(store, CONTENT[:have])

    assert finish(store) == have
    assert store.blobs.holds(REF)
    assert store.fs.entries(store.layout.tmp) == []


def test_an_empty_part_is_not_kept(store):
    leave(store, b"")

    assert store.fs.entries(store.layout.tmp) == []
    assert finish(store) == 0


def test_a_writer_takes_what_it_needs_and_leaves_the_rest(store):
    other = ref_of(b"other")
    leave(store, CONTENT[:500])
    leave(store, b"oth", other.digest)

    assert finish(store) == 500
    with store.writing("n") as writer:
        assert list(writer.partials.left()) == [other.digest]


def test_what_a_living_writer_has_is_its_own(store):
    with store.writing("m") as writer:
        path = writer.partials.resume(REF.digest)
        path.write_bytes(CONTENT[:500])

        assert finish(store) == 0


def test_gc_frees_what_nobody_goes_on_with(store):
    leave(store, CONTENT[:500])

    plan = GarbageCollector(store).run()

    assert [(one.purpose, one.nbytes > 500) for one in plan.unfinished] == [("m", True)]
    assert store.fs.entries(store.layout.tmp) == []
    assert finish(store) == 0


def test_gc_keeps_what_a_writer_has_taken_over(store):
    leave(store, CONTENT[:500])
    with store.writing("n") as writer:
        writer.partials.left()

        assert GarbageCollector(Store(store.layout.root)).run().unfinished == ()
        path = writer.partials.resume(REF.digest)
        assert path.read_bytes() == CONTENT[:500]


def test_a_part_of_another_user_or_kind_is_left_alone(store):
    leave(store, CONTENT[:500])
    ((folder, _),) = store.fs.entries(store.layout.tmp)
    part = store.layout.tmp / folder / f"{REF.digest.file_name}.partial"
    part.unlink()
    os.symlink("/etc/passwd", part)

    assert finish(store) == 0
