"""A source file is read as it was scanned, or not at all."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from importer.sources.file import find, is_unchanged, opened, read_exactly, read_whole
from store import Digest
from store.errors import InputError, IntegrityError, StorageError


def one_file(tmp_path, content=b"0123456789"):
    (tmp_path / "a").write_bytes(content)
    return find("a", tmp_path / "a")


def test_a_file_is_read_where_it_was_scanned(tmp_path):
    file = one_file(tmp_path)
    buffer = bytearray(4)

    with opened(file) as descriptor:
        read_exactly(file, descriptor, memoryview(buffer), 3)

    assert bytes(buffer) == b"3456"
    assert is_unchanged(file)


def _append(path):
    with path.open("ab") as file:
        file.write(b"x")


def _replace(path):
    path.with_name("b").write_bytes(path.read_bytes())
    os.replace(path.with_name("b"), path)


def _link(path):
    path.rename(path.with_name("b"))
    path.symlink_to("b")


CHANGES = {
    "longer": _append,
    "shorter": lambda path: os.truncate(path, 5),
    "newer": lambda path: os.utime(path, ns=(0, 1)),
    "another": _replace,
    "gone": os.unlink,
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changed_is_refused(tmp_path, change):
    file = one_file(tmp_path)
    change(tmp_path / "a")

    with pytest.raises(InputError) as caught, opened(file):
        pass
    assert caught.value.code == "E_SOURCE_CHANGED"
    assert not is_unchanged(file)


def test_a_file_that_became_a_link_is_refused(tmp_path):
    file = one_file(tmp_path)
    _link(tmp_path / "a")

    with pytest.raises(InputError) as caught, opened(file):
        pass
    assert caught.value.code == "E_SOURCE_CHANGED"


def test_a_file_that_is_truncated_under_the_reader_is_an_error(tmp_path):
    file = one_file(tmp_path)

    with opened(file) as descriptor:
        os.truncate(tmp_path / "a", 5)
        with pytest.raises(InputError) as caught:
            read_exactly(file, descriptor, memoryview(bytearray(8)), 0)
    assert caught.value.code == "E_SOURCE_CHANGED"


@pytest.mark.parametrize("change", ["shorter", "gone"])
def test_a_blob_that_changed_is_damaged_and_not_written_by_a_download(tmp_path, change):
    digest = Digest.of(b"0123456789")
    path = tmp_path / digest.file_name
    path.write_bytes(b"0123456789")
    blob = replace(find("w", path), is_blob=True)
    CHANGES[change](path)

    with pytest.raises(IntegrityError, match=f"{digest} of `w`") as caught, opened(blob):
        pass
    assert caught.value.code == "E_BLOB_MISSING"
    assert caught.value.hint is None


def test_a_failing_device_is_named_with_the_offset(tmp_path, monkeypatch):
    file = one_file(tmp_path)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with opened(file) as descriptor, pytest.raises(StorageError) as caught:
        read_exactly(file, descriptor, memoryview(bytearray(4)), 2)
    assert str(caught.value) == "`a`: Input/output error at byte 2"


def test_a_short_read_is_continued(tmp_path, monkeypatch):
    file = one_file(tmp_path)
    real, buffer = os.preadv, bytearray(10)

    with opened(file) as descriptor:
        monkeypatch.setattr(os, "preadv", lambda d, b, o: real(d, [b[0][:3]], o))
        read_exactly(file, descriptor, memoryview(buffer), 0)

    assert bytes(buffer) == b"0123456789"


def test_a_small_file_has_a_limit(tmp_path):
    file = one_file(tmp_path)
    assert read_whole(file, 10) == b"0123456789"

    with pytest.raises(InputError) as caught:
        read_whole(file, 9)
    assert caught.value.code == "E_LIMIT"
