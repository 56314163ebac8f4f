"""One file of a source: which it is, and reading it without surprises."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from store.errors import InputError, StorageError
from store.fs import read_into
from store.text import printable

_NO_LONGER_A_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells whether a file is still the one that was scanned.

    Attributes:
        size: bytes.
        ctime_ns: when anything about it changed; a hard link or a chmod beside the import
            changes it, too, so it decides only about what was seen in an earlier one.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int = field(default=0, compare=False)

    @classmethod
    def of(cls, seen: os.stat_result) -> Identity:
        """Take what matters from what the system says."""
        return cls(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file of a source.

    Attributes:
        path: relative to the source, with `/`; also its name in the model.
        location: where the bytes are, links resolved.
        sha256: that the Hub declares, in hexadecimal, for files in its large file storage.
    """

    path: str
    location: Path
    identity: Identity
    sha256: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.identity.size

    @property
    def directory(self) -> str:
        """The relative directory, empty for the source's own."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


class Extent(NamedTuple):
    """A byte range of a file.

    Attributes:
        offset: of the first byte.
    """

    file: SourceFile
    offset: int
    nbytes: int


def find(path: str, location: Path, sha256: str | None = None) -> SourceFile:
    """Give the file at a known place, links resolved, a path in a source."""
    return SourceFile(path, location, Identity.of(os.stat(location)), sha256)


@contextlib.contextmanager
def opened(file: SourceFile) -> Iterator[int]:
    """Open a source file that must still be the one that was scanned; give its descriptor.

    Raises:
        InputError: it has changed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file.location, flags)
    except OSError as error:
        if error.errno in _NO_LONGER_A_FILE:
            changed(file)
        raise
    try:
        if Identity.of(os.fstat(descriptor)) != file.identity:
            changed(file)
        yield descriptor
    finally:
        os.close(descriptor)


def read_exactly(file: SourceFile, descriptor: int, buffer: memoryview, offset: int) -> None:
    """Fill `buffer` from `offset`.

    Never through a mapping: there a file that is truncated meanwhile is a SIGBUS.

    Raises:
        InputError: the file ends before.
        StorageError: the device failed.
    """
    while buffer:
        try:
            count = read_into(descriptor, buffer, offset)
        except OSError as error:
            raise StorageError(
                f"`{file.path}`: {error.strerror} at byte {offset}", code="E_IO"
            ) from error
        if count == 0:
            changed(file)
        buffer = buffer[count:]
        offset += count


def read_whole(file: SourceFile, limit: int) -> bytes:
    """Read a small file.

    Raises:
        InputError: it is larger than `limit` bytes, or has changed.
    """
    if file.size > limit:
        raise InputError(
            f"`{printable(file.path)}` has {file.size} bytes, the limit is {limit}",
            code="E_LIMIT",
        )
    data = bytearray(file.size)
    with opened(file) as descriptor:
        read_exactly(file, descriptor, memoryview(data), 0)
    return bytes(data)


def check_unchanged(file: SourceFile) -> None:
    """Make sure that a file is still the one that was scanned.

    Raises:
        InputError: it has changed.
    """
    with contextlib.suppress(FileNotFoundError):
        if Identity.of(os.stat(file.location)) == file.identity:
            return
    changed(file)


def changed(file: SourceFile) -> NoReturn:
    """Refuse a file that is no longer what was scanned."""
    raise InputError(
        f"`{file.path}` changed while it was imported",
        code="E_SOURCE_CHANGED",
        hint="Let the download or training that writes it finish, then run the command again",
    )
