"""A disk in memory that forgets what was not synced.

The model is ALICE's (Pillai et al., OSDI '14), pessimistic where POSIX promises nothing: the
content of a file is durable after `sync` of the file, an entry of a directory after
`sync_directory` of that directory; at a crash everything else may be there or not, in any
order, and a rename may have happened by half. A failed `sync` is final: the content is never
written, although later syncs report success.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from store.status import Kind

ROOT = 1


@dataclass(slots=True)
class Inode:
    """A file or directory: what programs see, and what a crash would leave of it."""

    number: int
    kind: Kind
    mode: int
    data: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)
    saved_data: bytes = b""
    saved_entries: dict[str, int] = field(default_factory=dict)
    is_lost: bool = False

    @property
    def is_saved(self) -> bool:
        """Whether a crash leaves the content of a file as it is."""
        return self.data == self.saved_data

    def place(self, data: bytes, offset: int) -> None:
        """Write somewhere; what was never written before reads as zeros."""
        self.data += bytes(max(0, offset - len(self.data)))
        self.data[offset : offset + len(data)] = data


@dataclass(frozen=True, slots=True)
class Update:
    """A change of one directory entry that is not durable yet; to nothing for None."""

    directory: int
    path: Path
    target: int | None

    def __str__(self) -> str:
        return f"{'no ' if self.target is None else ''}{self.path}"


@dataclass(slots=True)
class Opened:
    """An open file description.

    Attributes:
        has_lost: what was written since it was opened could not be written back; `sync` says
            so once.
    """

    inode: int
    process: int
    lock: bool | None = None
    has_lost: bool = False


DATA_AFTER_CRASH: dict[str, Callable[[Inode], bytes]] = {
    "lost": lambda inode: inode.saved_data,
    "whole": lambda inode: bytes(inode.data),
    "zeros": lambda inode: bytes(len(inode.data)),
    "half": lambda inode: bytes(inode.data[: len(inode.data) // 2]),
}


class Disk:
    """What all processes of a machine share."""

    def __init__(self, boot: int = 1) -> None:
        self.boot = boot
        self.inodes = {ROOT: Inode(ROOT, Kind.DIRECTORY, 0o755)}
        self.pending: list[Update] = []
        self.opened: dict[int, Opened] = {}
        self.next_inode = ROOT + 1
        self.next_descriptor = 3
        self.next_process = 100

    def new_inode(self, kind: Kind, mode: int) -> Inode:
        inode = Inode(self.next_inode, kind, mode)
        self.next_inode += 1
        self.inodes[inode.number] = inode
        return inode

    def set_entry(self, path: Path, target: int | None) -> None:
        directory = self.find_parent(path)
        if target is None:
            del directory.entries[path.name]
        else:
            directory.entries[path.name] = target
        self.pending.append(Update(directory.number, path, target))

    def save_directory(self, directory: Inode) -> None:
        directory.saved_entries = dict(directory.entries)
        number = directory.number
        self.pending = [update for update in self.pending if update.directory != number]

    def save_all(self) -> None:
        """Make everything durable, as a clean unmount does."""
        for inode in self.inodes.values():
            inode.saved_data = bytes(inode.data)
            inode.saved_entries = dict(inode.entries)
            inode.is_lost = False
        self.pending.clear()

    def find(self, path: Path) -> Inode:
        return self._walk(path, str(path).split("/")[1:])

    def find_parent(self, path: Path) -> Inode:
        parent = self._walk(path, str(path).split("/")[1:-1])
        if parent.kind is not Kind.DIRECTORY:
            raise error_of(errno.ENOTDIR, path)
        return parent

    def _walk(self, path: Path, names: list[str]) -> Inode:
        inode = self.inodes[ROOT]
        for name in names:
            if inode.kind is not Kind.DIRECTORY:
                raise error_of(errno.ENOTDIR, path)
            number = inode.entries.get(name) if name else inode.number
            if number is None:
                raise error_of(errno.ENOENT, path)
            inode = self.inodes[number]
        return inode

    def after_power_cut(self, updates: list[Update], data: str) -> Disk:
        """What a reboot finds if just these updates reached the platter."""
        names = {
            number: dict(inode.saved_entries)
            for number, inode in self.inodes.items()
            if inode.kind is Kind.DIRECTORY
        }
        for update in updates:
            if update.target is None:
                names[update.directory].pop(update.path.name, None)
            else:
                names[update.directory][update.path.name] = update.target
        content = DATA_AFTER_CRASH[data]
        disk = Disk(self.boot + 1)
        disk.inodes.clear()
        waiting = [ROOT]
        while waiting:
            number = waiting.pop()
            if number in disk.inodes:
                continue
            old = self.inodes[number]
            entries = names.get(number, {})
            saved = old.saved_data if old.is_saved else content(old)
            disk.inodes[number] = Inode(
                number, old.kind, old.mode, bytearray(saved), entries, saved, dict(entries)
            )
            waiting += entries.values()
        disk.next_inode, disk.next_process = self.next_inode, self.next_process
        return disk


def error_of(number: int, path: Path, target: Path | None = None) -> OSError:
    text = os.strerror(number)
    if target is None:
        return OSError(number, text, str(path))
    return OSError(number, text, str(path), None, str(target))
