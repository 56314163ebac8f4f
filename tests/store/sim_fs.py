"""A file system in memory that counts what it does, and fails where it is told to.

The clock stands still, so nothing can depend on it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from store.fs import Buffer, File, FileSystem
from store.status import Free, Kind, Status
from tests.store.sim_disk import ROOT, Disk, Inode, Opened, error_of

NOW = 1_700_000_000_000_000_000
MUTATING = frozenset(
    [
        "create",
        "write",
        "write_at",
        "sync",
        "freeze",
        "sync_directory",
        "rename",
        "link",
        "unlink",
        "mkdir",
        "rmdir",
        "try_lock",
    ]
)
NEEDS_SPACE = frozenset(["create", "reserve", "write", "write_at", "rename", "link", "mkdir"])
NEEDS_DESCRIPTOR = frozenset(
    ["create", "open", "reopen", "sync_directory", "entries", "try_lock"]
)


class Crash(BaseException):
    """The process is dead: it does nothing more, not even clean up."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call, as it was logged."""

    name: str
    path: Path

    def can_fail_with(self, number: int) -> bool:
        """Whether a real file system may answer this call with this errno."""
        if number == errno.ENOSPC:
            return self.name in NEEDS_SPACE
        if number == errno.EMFILE:
            return self.name in NEEDS_DESCRIPTOR
        return True


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails: the operation number `at`, and all later ones if it is `lasting`.

    Attributes:
        short: a write takes half of the bytes before it fails.
    """

    at: int
    error: int
    lasting: bool = False
    short: bool = False

    def hits(self, number: int, operation: Operation) -> bool:
        """Whether this operation fails."""
        due = number >= self.at if self.lasting else number == self.at
        return due and operation.can_fail_with(self.error)


class SimFS(FileSystem):
    """One process's view of a `Disk`; every operation is counted and logged.

    Attributes:
        crash_at: the number of the operation that is not done any more.
        fault: what fails.
        before: called with the number of each operation before it is done.
    """

    def __init__(self, disk: Disk | None = None, host: str = "sim") -> None:
        self.disk = disk or Disk()
        self.host = host
        self.number = self.disk.next_process
        self.disk.next_process += 1
        self.log: list[Operation] = []
        self.crash_at: int | None = None
        self.fault: Fault | None = None
        self.before: Callable[[int], None] | None = None
        self.is_dead = False

    # What tests do to a disk.

    def another_process(self) -> SimFS:
        """Give a second process on the same machine."""
        return SimFS(self.disk, self.host)

    def die(self) -> None:
        """End the process: its descriptors are closed, and with them its locks."""
        self.is_dead = True
        mine = [
            key for key, opened in self.disk.opened.items() if opened.process == self.number
        ]
        for key in mine:
            del self.disk.opened[key]

    def crash_states(self, *, every: bool = True) -> Iterator[tuple[str, SimFS]]:
        """Give every state that a reboot after a power cut may find now, with its story.

        None of what was not synced, all of it, all but one update, only one update; and all
        updates with the unsynced content of files lost, in zeros or cut in half. Unless
        `every`: the two that catch most.
        """
        pending = self.disk.pending
        yield "nothing unsynced", SimFS(self.disk.after_power_cut([], "lost"))
        yield "all, content lost", SimFS(self.disk.after_power_cut(pending, "lost"))
        if not every:
            return
        if any(not inode.is_saved for inode in self.disk.inodes.values()):
            for data in ("whole", "zeros", "half"):
                yield f"all, content {data}", SimFS(self.disk.after_power_cut(pending, data))
        for index, update in enumerate(pending if len(pending) > 1 else ()):
            rest = pending[:index] + pending[index + 1 :]
            yield f"all but {update}", SimFS(self.disk.after_power_cut(rest, "whole"))
            yield f"only {update}", SimFS(self.disk.after_power_cut([update], "lost"))

    def after_power_cut(self) -> SimFS:
        """Give the state with nothing that was not synced."""
        return SimFS(self.disk.after_power_cut([], "lost"))

    def tree(self) -> dict[str, bytes | None]:
        """Give every path with its content, None for directories; no operation."""
        found: dict[str, bytes | None] = {}
        waiting = [("", ROOT)]
        while waiting:
            path, number = waiting.pop()
            inode = self.disk.inodes[number]
            if inode.kind is Kind.FILE:
                found[path] = bytes(inode.data)
                continue
            found[path or "/"] = None
            waiting += [(f"{path}/{name}", child) for name, child in inode.entries.items()]
        return found

    def fingerprint(self) -> bytes:
        """Tell states apart: by what programs see, and by what a crash now would leave."""
        return _hash_of(self.tree()) + (
            _hash_of(self.after_power_cut().tree()) if self.disk.pending else b""
        )

    def overwrite(self, path: Path, data: bytes) -> None:
        """Change a file behind everybody's back, durably."""
        inode = self.disk.find(path)
        inode.data[:] = data
        inode.saved_data = data

    def fail_write_back(self, path: Path) -> None:
        """Lose what a file holds, as a disk that fails while nobody waits for it.

        Who has the file open now is told at the next `sync`; who opens it later never is, as
        POSIX allows and as Linux did before 4.13 and does when the inode left its cache.
        """
        inode = self.disk.find(path)
        inode.is_lost = True
        for opened in self.disk.opened.values():
            if opened.inode == inode.number:
                opened.has_lost = True

    # The operations.

    def create(self, path: Path, mode: int = 0o600) -> File:
        self._enter("create", path)
        parent = self.disk.find_parent(path)
        if path.name in parent.entries:
            raise error_of(errno.EEXIST, path)
        inode = self.disk.new_inode(Kind.FILE, mode)
        self.disk.set_entry(path, inode.number)
        return self._opened(path, inode)

    def open(self, path: Path) -> File:
        self._enter("open", path)
        inode = self.disk.find(path)
        if inode.kind is not Kind.FILE:
            raise error_of(errno.EINVAL, path)
        return self._opened(path, inode)

    def reopen(self, path: Path) -> File:
        self._enter("reopen", path)
        inode = self.disk.find(path)
        if inode.kind is not Kind.FILE:
            raise error_of(errno.EINVAL, path)
        return self._opened(path, inode)

    def write(self, file: File, data: Buffer) -> None:
        inode = self._inode(file)
        taken = bytes(memoryview(data).cast("B"))
        error = self._logged("write", file.path)
        if error is not None:
            if self.fault is not None and self.fault.short:
                inode.data += taken[: len(taken) // 2]
            raise error
        inode.data += taken

    def write_at(self, file: File, data: Buffer, offset: int) -> None:
        inode = self._inode(file)
        taken = bytes(memoryview(data).cast("B"))
        error = self._logged("write_at", file.path)
        if error is not None:
            if self.fault is not None and self.fault.short:
                inode.place(taken[: len(taken) // 2], offset)
            raise error
        inode.place(taken, offset)

    def clone(self, source: File, target: File) -> bool:  # noqa: ARG002 - it cannot
        self._enter("clone", target.path)
        return False

    def reserve(self, file: File, nbytes: int) -> None:  # noqa: ARG002 - space has no size
        self._inode(file)
        self._enter("reserve", file.path)

    def start_sync(self, file: File, offset: int, nbytes: int) -> None:
        """Promise nothing: as if the disk had not begun yet."""

    def read(self, file: File, size: int, offset: int) -> bytes:
        self._enter("read", file.path)
        return bytes(self._inode(file).data[offset : offset + size])

    def read_into(self, file: File, buffer: memoryview, offset: int) -> int:
        self._enter("read_into", file.path)
        found = self._inode(file).data[offset : offset + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def sync(self, file: File) -> None:
        inode = self._inode(file)
        error = self._logged("sync", file.path)
        if error is not None:
            inode.is_lost = True
            raise error
        opened = self.disk.opened[file.descriptor]
        if opened.has_lost:
            opened.has_lost = False
            raise error_of(errno.EIO, file.path)
        if not inode.is_lost:
            inode.saved_data = bytes(inode.data)

    def freeze(self, file: File) -> None:
        self._enter("freeze", file.path)
        self._inode(file).mode = 0o444

    def close(self, file: File) -> None:
        if file.descriptor < 0:
            return
        error = self._logged("close", file.path)
        descriptor, file.descriptor = file.descriptor, -1
        del self.disk.opened[descriptor]
        if error is not None:
            raise error

    def sync_directory(self, path: Path) -> None:
        self._enter("sync_directory", path)
        inode = self.disk.find(path)
        if inode.kind is not Kind.DIRECTORY:
            raise error_of(errno.ENOTDIR, path)
        self.disk.save_directory(inode)

    def rename(self, source: Path, target: Path) -> None:
        self._enter("rename", source, target)
        self.disk.find_parent(source)
        parent = self.disk.find_parent(target)
        moved = self.disk.find(source)
        if moved.kind is Kind.DIRECTORY and source in (target, *target.parents):
            if source != target:
                raise error_of(errno.EINVAL, source, target)
            return
        if target in source.parents:
            raise error_of(errno.ENOTEMPTY, source, target)
        over = parent.entries.get(target.name)
        if over is not None:
            self._check_replaceable(moved, self.disk.inodes[over], source, target)
        if over == moved.number:
            return  # POSIX: two names of one file, nothing is done
        self.disk.set_entry(target, moved.number)
        self.disk.set_entry(source, None)

    def link(self, source: Path, target: Path) -> None:
        self._enter("link", source, target)
        inode = self.disk.find(source)
        parent = self.disk.find_parent(target)
        if target.name in parent.entries:
            raise error_of(errno.EEXIST, source, target)
        if inode.kind is Kind.DIRECTORY:
            raise error_of(errno.EPERM, source, target)
        self.disk.set_entry(target, inode.number)

    def unlink(self, path: Path) -> None:
        self._enter("unlink", path)
        if self.disk.find(path).kind is Kind.DIRECTORY:
            raise error_of(errno.EISDIR, path)
        self.disk.set_entry(path, None)

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        self._enter("mkdir", path)
        parent = self.disk.find_parent(path)
        if path.name in parent.entries:
            raise error_of(errno.EEXIST, path)
        inode = self.disk.new_inode(Kind.DIRECTORY, mode)
        self.disk.set_entry(path, inode.number)

    def rmdir(self, path: Path) -> None:
        self._enter("rmdir", path)
        inode = self.disk.find(path)
        if inode.kind is not Kind.DIRECTORY:
            raise error_of(errno.ENOTDIR, path)
        if inode.entries:
            raise error_of(errno.ENOTEMPTY, path)
        self.disk.set_entry(path, None)

    def entries(self, path: Path) -> list[tuple[str, Kind]]:
        self._enter("entries", path)
        inode = self.disk.find(path)
        if inode.kind is not Kind.DIRECTORY:
            raise error_of(errno.ENOTDIR, path)
        inodes = self.disk.inodes
        return sorted((name, inodes[number].kind) for name, number in inode.entries.items())

    def status(self, path: Path) -> Status | None:
        self._enter("status", path)
        try:
            return _status(self.disk.find(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def status_of(self, file: File) -> Status:
        self._enter("status_of", file.path)
        return _status(self._inode(file))

    def free(self, path: Path) -> Free:
        self._enter("free", path)
        return Free(1 << 40, 4096, None)

    def machine(self) -> tuple[str, str]:
        return self.host, f"boot{self.disk.boot}"

    def process(self) -> int:
        return self.number

    def try_lock(self, path: Path, *, exclusive: bool) -> File | None:
        self._enter("try_lock", path)
        parent = self.disk.find_parent(path)
        number = parent.entries.get(path.name)
        if number is None:
            inode = self.disk.new_inode(Kind.FILE, 0o600)
            self.disk.set_entry(path, inode.number)
        else:
            inode = self.disk.inodes[number]
        if inode.kind is Kind.DIRECTORY:
            raise error_of(errno.EISDIR, path)
        if self._is_locked(inode, exclusive=exclusive):
            return None
        file = self._opened(path, inode)
        self.disk.opened[file.descriptor].lock = exclusive
        return file

    def _is_locked(self, inode: Inode, *, exclusive: bool) -> bool:
        held = [
            opened.lock for opened in self.disk.opened.values() if opened.inode == inode.number
        ]
        return any(lock or (lock is not None and exclusive) for lock in held)

    def _check_replaceable(self, moved: Inode, over: Inode, source: Path, target: Path) -> None:
        if over.kind is Kind.DIRECTORY and moved.kind is not Kind.DIRECTORY:
            raise error_of(errno.EISDIR, source, target)
        if moved.kind is Kind.DIRECTORY and over.kind is not Kind.DIRECTORY:
            raise error_of(errno.ENOTDIR, source, target)
        if over.entries:
            raise error_of(errno.ENOTEMPTY, source, target)

    def _opened(self, path: Path, inode: Inode) -> File:
        descriptor = self.disk.next_descriptor
        self.disk.next_descriptor += 1
        self.disk.opened[descriptor] = Opened(inode.number, self.number)
        return File(path, descriptor)

    def _inode(self, file: File) -> Inode:
        if self.is_dead:
            raise Crash
        if file.descriptor < 0:
            raise error_of(errno.EBADF, file.path)
        return self.disk.inodes[self.disk.opened[file.descriptor].inode]

    def _enter(self, name: str, path: Path, target: Path | None = None) -> None:
        error = self._logged(name, path, target)
        if error is not None:
            raise error

    def _logged(self, name: str, path: Path, target: Path | None = None) -> OSError | None:
        if self.is_dead:
            raise Crash
        number = len(self.log)
        operation = Operation(name, path)
        self.log.append(operation)
        if self.before is not None:
            self.before(number)
        if number == self.crash_at:
            self.die()
            raise Crash
        if self.fault is not None and self.fault.hits(number, operation):
            return error_of(self.fault.error, path, target)
        return None


class SimFSWithoutLocks(SimFS):
    """A file system on which everybody gets every lock, as some network ones."""

    def _is_locked(self, inode: Inode, *, exclusive: bool) -> bool:  # noqa: ARG002
        return False


def home() -> SimFS:
    """Give a machine with nothing but a home directory, durable."""
    fs = SimFS()
    for path in (Path("/home"), Path("/home/user")):
        fs.mkdir(path, 0o755)
    fs.disk.save_all()
    fs.log.clear()
    return fs


def _status(inode: Inode) -> Status:
    size, number = len(inode.data), inode.number
    return Status(inode.kind, size, number, NOW, NOW, inode.mode, os.geteuid())


def _hash_of(tree: dict[str, bytes | None]) -> bytes:
    # But for the random ends of names, which mean nothing.
    known = [(_RANDOM.sub(r"\1", path), content) for path, content in tree.items()]
    return hashlib.sha256(repr(sorted(known, key=lambda pair: pair[0])).encode()).digest()


_RANDOM = re.compile(r"(/tmp/[^/]+[.-])[0-9a-f]{16}")
