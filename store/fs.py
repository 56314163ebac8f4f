"""The file system: the only way to it for the store, some twenty system calls.

Everything else in this package takes a `FileSystem` as argument, so that a simulated one
can stand in, fail at any call and lose what was not synced (tests/store/sim_fs.py).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
from pathlib import Path
from typing import Final, NoReturn

from store.status import Free, Kind, Status, kind_of_entry, status_from

Buffer = bytes | bytearray | memoryview


class File:
    """An open file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path: Final = path
        self.descriptor = descriptor


class FileSystem:
    """The real file system; every failure is an `OSError` that names the path.

    Attributes:
        is_durable: False to sync nothing, which is only for measuring what syncing costs.
        is_shared: whether the group may do what the owner may, whatever the umask says.
    """

    is_durable: bool = True
    is_shared: bool = False

    def create(self, path: Path, mode: int = 0o600) -> File:
        """Create a file that must not exist, for reading and writing."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = File(path, os.open(path, flags, mode))
        self._share(file.descriptor)
        return file

    def open(self, path: Path) -> File:
        """Open a regular file for reading, without following a link or waiting on a FIFO."""
        return _open_regular(path, os.O_RDONLY)

    def reopen(self, path: Path, *, reads: bool = True) -> File:
        """Open a file that somebody has created, for writing, and for reading if it `reads`."""
        return _open_regular(path, os.O_RDWR if reads else os.O_WRONLY)

    def write(self, file: File, data: Buffer) -> None:
        """Append all of `data`."""
        view = memoryview(data).cast("B")
        with _naming(file.path):
            while view:
                # A regular file may take less than asked: a full disk, a signal, 2 GiB.
                view = view[os.write(file.descriptor, view) or _nothing() :]

    def write_at(self, file: File, data: Buffer, offset: int) -> None:
        """Write all of `data` at `offset`, which may be behind the end; threads may share."""
        view = memoryview(data).cast("B")
        try:  # for every chunk, and `_naming` is three calls
            while view:
                count = os.pwrite(file.descriptor, view, offset) or _nothing()
                view = view[count:]
                offset += count
        except OSError as error:
            error.filename = error.filename or str(file.path)
            raise

    def reserve(self, file: File, nbytes: int) -> None:
        """Reserve the space that a file will need, if the file system can."""
        from store import linux  # noqa: PLC0415 - ctypes is for those who write much

        with _naming(file.path):
            linux.reserve(file.descriptor, nbytes)

    def start_sync(self, file: File, offset: int, nbytes: int) -> None:
        """Begin to make a part of a file durable, so that `sync` finds less to do."""
        from store import linux  # noqa: PLC0415 - see above

        if self.is_durable:
            with _naming(file.path):
                linux.start_writing_back(file.descriptor, offset, nbytes)

    def clone(self, source: File, target: File) -> bool:
        """Have an empty file share the bytes of another, if the file system can.

        Writing to either copies what is written (reflink: btrfs, xfs and others).
        """
        from store import linux  # noqa: PLC0415 - see above

        with _naming(target.path):
            return linux.clone(source.descriptor, target.descriptor)

    def read(self, file: File, size: int, offset: int) -> bytes:
        """Read up to `size` bytes at `offset`; fewer only at the end."""
        with _naming(file.path):
            return os.pread(file.descriptor, size, offset)

    def read_into(self, file: File, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset`; return how many bytes there were."""
        with _naming(file.path):
            return read_into(file.descriptor, buffer, offset)

    def sync(self, file: File) -> None:
        """Make the file's content durable. A failure is final and must not be retried.

        After a failed write-back the kernel calls the pages clean, so a second fsync would
        report success over lost data.
        """
        if not self.is_durable:
            return
        with _naming(file.path):
            _full_sync(file.descriptor)

    def freeze(self, file: File) -> None:
        """Make the file read-only for everybody: 0444."""
        with _naming(file.path):
            # A hard link to a file of another user is that already, or cannot be.
            if stat.S_IMODE(os.fstat(file.descriptor).st_mode) != _FROZEN:
                os.fchmod(file.descriptor, _FROZEN)

    def close(self, file: File) -> None:
        """Close the file; closing twice is harmless."""
        if file.descriptor >= 0:
            descriptor, file.descriptor = file.descriptor, -1
            os.close(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        if not self.is_durable:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _naming(path):
                _full_sync(descriptor)
        except OSError as error:
            # Some network file systems cannot sync a directory and do not need to.
            if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
                raise
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file or directory over `target`, atomically."""
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Make a hard link: a second name of a file."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        """Remove a file or link."""
        os.unlink(path)

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        """Make one directory, which must not exist."""
        os.mkdir(path, mode)
        if self.is_shared:
            # What is made in it is the group's in turn.
            os.chmod(path, _shared(os.lstat(path).st_mode) | stat.S_ISGID)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def entries(self, path: Path) -> list[tuple[str, Kind]]:
        """List a directory, sorted by name."""
        with os.scandir(path) as scan:
            return sorted((entry.name, kind_of_entry(entry)) for entry in scan)

    def status(self, path: Path) -> Status | None:
        """Look at a path without following links; return None where there is nothing."""
        try:
            seen = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status_from(seen)

    def status_of(self, file: File) -> Status:
        """Look at an open file."""
        return status_from(os.fstat(file.descriptor))

    def free(self, path: Path) -> Free:
        """Return how much space and how many files the file system of `path` has left."""
        seen = os.statvfs(path)
        block = seen.f_frsize or seen.f_bsize
        # btrfs and friends count no inodes and report zero of zero.
        return Free(seen.f_bavail * block, block, seen.f_favail if seen.f_files else None)

    def _share(self, descriptor: int) -> None:
        """Give a file of ours to the group, where the store is the group's."""
        if self.is_shared:
            with contextlib.suppress(PermissionError):  # it is of another of the group
                os.fchmod(descriptor, _shared(os.fstat(descriptor).st_mode))

    def machine(self) -> tuple[str, str]:
        """Return host name and boot id of this machine, each fit for a file name."""
        return _fit(os.uname().nodename), _fit(_boot_id())

    def process(self) -> int:
        """Return the process id."""
        return os.getpid()

    def try_lock(self, path: Path, *, exclusive: bool) -> File | None:
        """Take an flock without waiting; return None while somebody else holds it.

        The lock lives as long as the returned file is open, and dies with the process.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._share(descriptor)
        try:
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise OSError(error.errno, error.strerror, str(path)) from error
        return File(path, descriptor)


def _shared(mode: int) -> int:
    """Return permission bits by which the group may do what the owner may."""
    return stat.S_IMODE(mode) | (mode >> 3 & 0o070)


_FROZEN: Final = 0o444
_FULL_SYNC: Final = getattr(fcntl, "F_FULLFSYNC", None)


def _open_regular(path: Path, flags: int) -> File:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return File(path, descriptor)


def read_into(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Fill `buffer` from `offset` of an open file; return how many bytes there were."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    data = os.pread(descriptor, len(buffer), offset)  # macOS before 11
    buffer[: len(data)] = data
    return len(data)


def _nothing() -> NoReturn:  # of some FUSE file systems, which would never take the rest
    raise OSError(errno.EIO, "nothing was written")


def _full_sync(descriptor: int) -> None:
    if sys.platform == "darwin" and _FULL_SYNC is not None:
        # os.fsync leaves the data in the drive's cache there.
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            # Only where there is no such call, as over the network: what failed is lost.
            if error.errno not in {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}:
                raise
        else:
            return
    os.fsync(descriptor)


class _naming:  # noqa: N801 - reads as what it does
    # Calls on a descriptor fail without saying on which file. As a generator it costs twice.
    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(self._path)


def _boot_id() -> str:
    # Elsewhere than on Linux the lock alone tells a dead writer, which is enough: a boot
    # drops every lock.
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _fit(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", text)[:64] or "unknown"
