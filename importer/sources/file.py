"""One file of a source: which it is, and reading it without surprises."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, Protocol

from importer.sources.roles import FileRole
from store.digest import Digest
from store.errors import InputError, IntegrityError, StorageError
from store.fs import read_into
from store.text import printable

_NO_LONGER_A_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells whether a file is still the one that was scanned.

    Attributes:
        device: a number that each machine gives for itself; so it decides nothing about the
            file that another one was told of.
        size: in bytes.
        ctime_ns: when anything about the file changed. A hard link or a chmod during the
            import changes it, too, so it decides only about files of an earlier import.
    """

    device: int = field(compare=False)
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int = field(default=0, compare=False)

    @classmethod
    def of(cls, seen: os.stat_result) -> Identity:
        """Return the identity of a file, as the system sees it."""
        return cls(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


class Maker(Protocol):
    """Makes the content of a file that stands nowhere: a frozen value, the same every time."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the content from the start."""
        ...


class Rest(Protocol):
    """Fetches what is lacking of a file that stands for one on the Hub."""

    def fetch(self, ranges: Iterable[range]) -> None:
        """Fetch the bytes of some ranges of the file, and no others.

        Raises:
            IngotError: they cannot be had.
            OSError: writing failed.
        """
        ...


UNKNOWN: Final = FileRole(reason="of no known role")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file of a source.

    Attributes:
        path: relative to the source, with `/`; also its name in the model.
        location: where the bytes are, links resolved.
        sha256: that the Hub declares, in hexadecimal, for files in its large file storage.
        role: what the file is to the model; by default nothing that is known.
        is_blob: whether it is a blob of the store, named by its digest. A writer may put
            another file with the same bytes in its place at any time.
        maker: makes the content of a file that is not in the source, but made of it.
        rest: fetches what is lacking of it, where only its header is there.
    """

    path: str
    location: Path
    identity: Identity
    sha256: str | None = None
    role: FileRole = UNKNOWN
    is_blob: bool = False
    maker: Maker | None = None
    rest: Rest | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.identity.size

    @property
    def directory(self) -> str:
        """The relative directory, empty for the source's own."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    def may_be(self, seen: Identity) -> bool:
        """Return whether a file may have the bytes of this one; of blobs only a hash tells."""
        return seen.size == self.size if self.is_blob else seen == self.identity


class Extent(NamedTuple):
    """A byte range of a file.

    Attributes:
        offset: of the first byte.
    """

    file: SourceFile
    offset: int
    nbytes: int


def find(
    path: str, location: Path, role: FileRole = UNKNOWN, sha256: str | None = None
) -> SourceFile:
    """Return the file at a place, links resolved, as one of a source."""
    return SourceFile(path, location, Identity.of(os.stat(location)), sha256, role)


@contextlib.contextmanager
def opened(file: SourceFile) -> Iterator[int]:
    """Open a source file that must still be the one that was scanned; yield its descriptor.

    Raises:
        InputError: it has changed.
        IntegrityError: it is a blob that is gone or has changed.
    """
    if file.maker is not None:
        import tempfile  # noqa: PLC0415 - 1.3 ms that few files need

        with tempfile.TemporaryFile() as made:
            for piece in file.maker.pieces():
                made.write(piece)
            made.flush()
            yield made.fileno()
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file.location, flags)
    except OSError as error:
        if error.errno in _NO_LONGER_A_FILE:
            changed(file)
        raise
    try:
        if not file.may_be(Identity.of(os.fstat(descriptor))):
            changed(file)
        yield descriptor
    finally:
        os.close(descriptor)


def read_exactly(file: SourceFile, descriptor: int, buffer: memoryview, offset: int) -> None:
    """Fill `buffer` with the bytes of a file from `offset` on.

    The file is never mapped: one that is truncated meanwhile would be a SIGBUS.

    Raises:
        InputError: the file ends before that.
        IntegrityError: it is a blob, which ends before that.
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


def read_bytes(file: SourceFile, descriptor: int, start: int, end: int) -> bytes:
    """Read the bytes from `start` to before `end`.

    Raises:
        InputError: the file ends before that.
        IntegrityError: it is a blob, which ends before that.
        StorageError: the device failed.
    """
    data = bytearray(end - start)
    read_exactly(file, descriptor, memoryview(data), start)
    return bytes(data)


def read_whole(file: SourceFile, limit: int) -> bytes:
    """Read a small file.

    Raises:
        InputError: it is larger than `limit` bytes, or has changed.
        IntegrityError: it is a blob that is gone or has changed.
    """
    if file.size > limit:
        raise InputError(
            f"`{printable(file.path)}` has {file.size} bytes, the limit is {limit}",
            code="E_LIMIT",
        )
    with opened(file) as descriptor:
        return read_bytes(file, descriptor, 0, file.size)


def is_unchanged(file: SourceFile) -> bool:
    """Return whether a file is still the one that was scanned.

    One that is made has its content with it; what it was made of is looked at on its own.
    """
    if file.maker is not None:
        return True
    try:
        return Identity.of(os.stat(file.location)) == file.identity
    except FileNotFoundError:
        return False


def changed(file: SourceFile) -> NoReturn:
    """Raise the error for a file that is no longer what was scanned.

    Raises:
        IntegrityError: it is a blob, which nobody writes to: the store is damaged.
        InputError: it is any other file.
    """
    if file.is_blob:
        digest = Digest.from_file_name(file.location.name)
        raise IntegrityError(
            f"blob {digest} of `{printable(file.path)}` is gone or has changed",
            code="E_BLOB_MISSING",
        )
    raise InputError(
        f"`{file.path}` changed while it was imported",
        code="E_SOURCE_CHANGED",
        hint="Let the download or training that writes it finish, then run the command again",
    )
