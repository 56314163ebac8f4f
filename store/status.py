"""What the file system says of a path."""

from __future__ import annotations

import os
import stat
from enum import StrEnum, unique
from typing import NamedTuple


@unique
class Kind(StrEnum):
    """What a directory entry is; links are never followed."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class Status(NamedTuple):
    """What `lstat` says of a path.

    Attributes:
        size: bytes.
        mode: permission bits.
    """

    kind: Kind
    size: int
    inode: int
    mtime_ns: int
    ctime_ns: int
    mode: int = 0o600
    owner: int = 0


class Free(NamedTuple):
    """What a file system has left.

    Attributes:
        block: bytes that the smallest file occupies.
        files: how many more files, or None where the file system does not count them.
    """

    nbytes: int
    block: int
    files: int | None


def status_from(seen: os.stat_result) -> Status:
    """Return the part of a `stat` result that the store looks at."""
    return Status(
        _kind(seen.st_mode),
        seen.st_size,
        seen.st_ino,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
        stat.S_IMODE(seen.st_mode),
        seen.st_uid,
    )


def kind_of_entry(entry: os.DirEntry[str]) -> Kind:
    """Return what a directory entry is."""
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_file(follow_symlinks=False):
        return Kind.FILE
    return Kind.DIRECTORY if entry.is_dir(follow_symlinks=False) else Kind.OTHER


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER
