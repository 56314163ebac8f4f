"""The folder of a writer: its name, and the pins in it."""

from __future__ import annotations

import errno

import pytest

from store.errors import StorageError
from store.fs import FileSystem
from store.writer_folder import PINS, Pins, WriterId
from tests.store.builders import digest_of

ONE, TWO = digest_of(b"one"), digest_of(b"two")


class FailingOnce(FileSystem):
    """Takes half of one write."""

    is_broken = True

    def write(self, file, data):
        if not self.is_broken:
            super().write(file, data)
            return
        self.is_broken = False
        super().write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space left on device", str(file.path))


def test_a_name_is_read_back():
    identity = WriterId("host", "boot", "12", "ab")

    assert WriterId.parse(str(identity)) == identity


@pytest.mark.parametrize("folder", ["a.b.c", "a.b.c.d.e", "a..c.d", "VERSION-12", ""])
def test_other_names_are_not_folders_of_writers(folder):
    assert WriterId.parse(folder) is None


def test_each_digest_is_pinned_once(tmp_path):
    pins = Pins(FileSystem(), tmp_path)
    pins.add([ONE, TWO, ONE])
    pins.add([TWO])
    pins.close()

    assert (tmp_path / PINS).read_text() == f"{ONE}\n{TWO}\n"


def test_after_a_torn_pin_only_what_is_pinned_can_be(tmp_path):
    fs = FailingOnce()
    fs.is_broken = False
    pins = Pins(fs, tmp_path)
    pins.add([ONE])
    fs.is_broken = True
    with pytest.raises(OSError, match="no space"):
        pins.add([TWO])

    pins.add([ONE])
    with pytest.raises(StorageError, match="cannot be trusted"):
        pins.add([TWO])
    pins.close()
