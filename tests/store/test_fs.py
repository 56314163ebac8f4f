from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import stat
import sys

import pytest

from store import fs as fs_module
from store import linux
from store.fs import FileSystem
from store.status import Kind

FS = FileSystem()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def written(path, data=b"12345678"):
    file = FS.create(path)
    FS.write(file, data)
    return file


def make(path, kind):
    """Make something that is not a regular file."""
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.with_name("target").write_bytes(b"")
        path.symlink_to("target")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))


NO_FILES = ["directory", "link", "dangling link", "fifo", "socket"]


@pytest.fixture(params=NO_FILES)
def no_file(request, path, monkeypatch):
    monkeypatch.chdir(path.parent)  # the path of a socket has at most 108 bytes
    make(path, request.param)
    return path


def test_what_is_written_can_be_read(path):
    file = written(path)

    assert FS.read(file, 4, 2) == b"3456"
    FS.close(file)


def test_writing_appends(path):
    file = written(path)
    FS.write(file, memoryview(b"9"))
    FS.close(file)

    assert path.read_bytes() == b"123456789"


def test_short_writes_are_continued(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))

    FS.close(written(path))

    assert path.read_bytes() == b"12345678"


def test_a_place_behind_the_end_can_be_written_first(path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:3], at))
    file = FS.create(path)

    FS.write_at(file, b"45678", 3)
    FS.write_at(file, memoryview(b"123"), 0)
    FS.close(file)

    assert path.read_bytes() == b"12345678"


def test_reserved_space_is_no_content(path):
    file = FS.create(path)
    FS.reserve(file, 1 << 20)
    FS.write_at(file, b"12345678", 0)
    FS.close(file)

    assert path.read_bytes() == b"12345678"


@pytest.mark.skipif(sys.platform != "linux", reason="no fallocate")
def test_space_that_is_not_there_cannot_be_reserved(path):
    file = FS.create(path)

    with pytest.raises(OSError, match=str(path)) as caught:
        FS.reserve(file, 1 << 60)
    FS.close(file)
    assert caught.value.errno in {errno.ENOSPC, errno.EFBIG}


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_cannot_reserve_does_without(path, monkeypatch, number):
    def refuse(*_):
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(linux, "_libc", lambda _: refuse)
    file = FS.create(path)

    FS.reserve(file, 1 << 20)
    FS.close(file)


def test_where_there_is_no_linux_nothing_is_reserved_or_begun(path, monkeypatch):
    linux._libc.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    file = written(path)

    FS.reserve(file, 1 << 60)
    FS.start_sync(file, 0, 8)
    FS.close(file)
    linux._libc.cache_clear()


def test_what_is_begun_to_be_synced_is_still_there(path):
    file = written(path)

    FS.start_sync(file, 0, 4)
    FS.sync(file)
    FS.close(file)

    assert path.read_bytes() == b"12345678"


def test_who_only_measures_syncs_nothing(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))
    monkeypatch.setattr(linux, "start_writing_back", lambda *_: pytest.fail("synced"))
    fs = FileSystem()
    fs.is_durable = False
    file = written(path)

    fs.start_sync(file, 0, 8)
    fs.sync(file)
    fs.sync_directory(path.parent)
    fs.close(file)


def test_reading_beyond_the_end_gives_what_there_is(path):
    file = written(path)

    assert (FS.read(file, 100, 6), FS.read(file, 100, 99)) == (b"78", b"")
    FS.close(file)


def test_reading_fills_a_buffer(path):
    file, buffer = written(path), bytearray(5)

    assert FS.read_into(file, memoryview(buffer), 5) == 3
    assert bytes(buffer) == b"678\0\0"
    FS.close(file)


def test_reading_fills_a_buffer_where_there_is_no_preadv(path, monkeypatch):
    monkeypatch.delattr(os, "preadv")
    file, buffer = written(path), bytearray(5)

    assert FS.read_into(file, memoryview(buffer), 5) == 3
    assert bytes(buffer) == b"678\0\0"
    FS.close(file)


def test_a_file_that_exists_is_not_created(path):
    path.write_bytes(b"precious")

    with pytest.raises(FileExistsError):
        FS.create(path)
    assert path.read_bytes() == b"precious"


def test_a_link_is_not_created_through(no_file):
    with pytest.raises(FileExistsError):
        FS.create(no_file)
    assert not no_file.with_name("nowhere").exists()


def test_what_is_no_regular_file_is_not_opened(no_file):
    with pytest.raises(OSError, match="file"):
        FS.open(no_file)


def test_a_refusal_to_open_leaves_no_descriptor(path):
    path.mkdir()
    before = os.listdir("/dev/fd")

    with pytest.raises(OSError, match="not a regular file"):
        FS.open(path)

    assert os.listdir("/dev/fd") == before


def test_descriptors_are_not_inherited(path):
    file = written(path)

    assert not os.get_inheritable(file.descriptor)
    FS.close(file)


def test_a_file_may_be_closed_twice(path):
    file = written(path)
    FS.close(file)

    FS.close(file)


@pytest.mark.parametrize("operation", ["write", "read", "read_into", "sync", "freeze"])
def test_a_failure_on_a_descriptor_names_the_file(path, operation):
    file = written(path)
    os.close(file.descriptor)
    more = {"write": (b"x",), "read": (1, 0), "read_into": (memoryview(bytearray(1)), 0)}

    with pytest.raises(OSError, match="descriptor") as caught:
        getattr(FS, operation)(file, *more.get(operation, ()))

    assert (caught.value.errno, caught.value.filename) == (errno.EBADF, str(path))


def test_a_frozen_file_can_only_be_read(path):
    file = written(path)
    FS.freeze(file)
    FS.close(file)

    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_syncing_keeps_the_content(path):
    file = written(path)
    FS.sync(file)
    FS.sync_directory(path.parent)
    FS.close(file)

    assert path.read_bytes() == b"12345678"


def test_a_sync_that_fails_is_not_tried_again(path, monkeypatch):
    file, calls = written(path), []

    def fail(descriptor):
        calls.append(descriptor)
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="input/output error"):
        FS.sync(file)
    assert len(calls) == 1
    FS.close(file)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_directory_that_need_not_be_synced_is_no_failure(path, monkeypatch, number):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(number, "x")))

    FS.sync_directory(path.parent)


def test_a_directory_that_cannot_be_synced_is_named(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "x")))

    with pytest.raises(OSError, match=re.escape(str(path.parent))):
        FS.sync_directory(path.parent)


def test_the_drive_is_flushed_where_fsync_does_not(path, monkeypatch):
    calls = []
    monkeypatch.setattr(fs_module.sys, "platform", "darwin")
    monkeypatch.setattr(fs_module, "_FULL_SYNC", 51)
    monkeypatch.setattr(fs_module.fcntl, "fcntl", lambda *args: calls.append(args))
    file = written(path)

    FS.sync(file)

    assert calls == [(file.descriptor, 51)]
    FS.close(file)


def test_a_rename_replaces(path):
    path.write_bytes(b"new")
    target = path.with_name("target")
    target.write_bytes(b"old")

    FS.rename(path, target)

    assert (path.exists(), target.read_bytes()) == (False, b"new")


def test_a_linked_link_is_a_link(path):
    path.symlink_to("nowhere")

    FS.link(path, path.with_name("second"))

    assert os.readlink(path.with_name("second")) == "nowhere"


def test_entries_are_sorted_and_not_followed(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for kind in NO_FILES:
        make(path.with_name(kind), kind)

    assert FS.entries(path.parent) == [
        ("dangling link", Kind.LINK),
        ("directory", Kind.DIRECTORY),
        ("fifo", Kind.OTHER),
        ("link", Kind.LINK),
        ("socket", Kind.OTHER),
        ("target", Kind.FILE),
    ]


def test_the_status_of_nothing_is_none(path):
    path.write_bytes(b"")

    assert FS.status(path.with_name("none")) is None
    assert FS.status(path / "below a file") is None


def test_the_status_of_a_link_is_its_own(path):
    path.symlink_to("nowhere")

    assert FS.status(path).kind is Kind.LINK


def test_the_status_is_that_of_the_system(path):
    path.write_bytes(b"123")
    path.chmod(0o640)
    seen, found = path.stat(), FS.status(path)

    assert (found.kind, found.size, found.mode, found.owner) == (
        Kind.FILE,
        3,
        0o640,
        os.geteuid(),
    )
    assert (found.inode, found.mtime_ns, found.ctime_ns) == (
        seen.st_ino,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
    )


def test_the_status_of_an_open_file_is_that_of_its_path(path):
    file = written(path)

    assert FS.status_of(file) == FS.status(path)
    FS.close(file)


def test_free_space_is_counted_in_bytes_and_files(path):
    free = FS.free(path.parent)

    assert free.nbytes > 0
    assert free.block > 0
    assert free.files is None or free.files > 0


def test_host_and_boot_fit_into_the_name_of_a_folder():
    host, boot = FS.machine()

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", host)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", boot)


def test_host_and_boot_stay_the_same():
    assert FS.machine() == FileSystem().machine()


def test_an_exclusive_lock_excludes_everybody(path):
    held = FS.try_lock(path, exclusive=True)

    assert FS.try_lock(path, exclusive=True) is None
    assert FS.try_lock(path, exclusive=False) is None
    FS.close(held)


def test_shared_locks_exclude_only_exclusive_ones(path):
    held = [FS.try_lock(path, exclusive=False) for _ in range(2)]

    assert FS.try_lock(path, exclusive=True) is None
    for file in held:
        FS.close(file)


def test_a_closed_lock_is_free(path):
    FS.close(FS.try_lock(path, exclusive=True))

    held = FS.try_lock(path, exclusive=True)
    assert held is not None
    FS.close(held)


def test_a_lock_that_is_not_got_leaves_no_descriptor(path):
    held = FS.try_lock(path, exclusive=True)
    before = os.listdir("/dev/fd")

    FS.try_lock(path, exclusive=True)

    assert os.listdir("/dev/fd") == before
    FS.close(held)


def test_a_lock_that_fails_names_its_file_and_leaves_no_descriptor(path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fs_module.fcntl, "flock", fail)
    before = os.listdir("/dev/fd")

    with pytest.raises(OSError, match="no locks available") as caught:
        FS.try_lock(path, exclusive=True)

    assert (caught.value.filename, os.listdir("/dev/fd")) == (str(path), before)


def test_a_system_without_boot_ids_has_an_unknown_boot(monkeypatch):
    def fail(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(fs_module.Path, "read_text", fail)

    assert FS.machine()[1] == "unknown"


def test_a_flush_that_the_drive_refuses_is_a_sync(path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOTSUP, "not supported")

    synced = []
    monkeypatch.setattr(fs_module.sys, "platform", "darwin")
    monkeypatch.setattr(fs_module, "_FULL_SYNC", 51)
    monkeypatch.setattr(fs_module.fcntl, "fcntl", fail)
    monkeypatch.setattr(os, "fsync", synced.append)
    file = written(path)

    FS.sync(file)

    assert synced == [file.descriptor]
    FS.close(file)


def test_a_flush_that_fails_is_not_tried_again_by_a_sync(path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "input/output error")

    synced = []
    monkeypatch.setattr(fs_module.sys, "platform", "darwin")
    monkeypatch.setattr(fs_module, "_FULL_SYNC", 51)
    monkeypatch.setattr(fs_module.fcntl, "fcntl", fail)
    monkeypatch.setattr(os, "fsync", synced.append)
    file = written(path)

    with pytest.raises(OSError, match="input/output error"):
        FS.sync(file)

    assert synced == []
    FS.close(file)


@pytest.mark.parametrize("call", ["write", "pwrite"])
def test_a_file_system_that_takes_nothing_is_not_asked_for_ever(path, monkeypatch, call):
    monkeypatch.setattr(os, call, lambda *_: 0)
    file = FS.create(path)

    with pytest.raises(OSError, match="nothing was written") as caught:
        FS.write(file, b"1") if call == "write" else FS.write_at(file, b"1", 0)

    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    FS.close(file)
