"""The directory of an export: written beside its place, and renamed when it is durable."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from importer.exports.place import taken
from store.durable import check_length
from store.errors import StorageError
from store.fs import File, FileSystem
from store.text import printable

_TRIES: Final = 16
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""What file systems without hard links say to one."""
_WORTH_RESERVING: Final = 1 << 18


class ExportDirectory:
    """A directory that is not there until everything in it is durable. A context manager.

    Files are written into a sibling with a name of its own. The descriptor of that sibling is
    locked for as long as its writer lives, so that the next export to the same place knows
    what a killed one left, and removes it.

    Example:
        >>> with ExportDirectory(fs, place) as directory:
        ...     directory.make("config.json", len(data), [(0, data)])
        ...     directory.commit("config.json", len(data))
        ...     directory.publish()
    """

    def __init__(self, fs: FileSystem, place: Path, only: str | None = None) -> None:
        """Prepare to write to a place.

        Args:
            fs: that it is on.
            place: as `check_place` returned it.
            only: the file that is all of the export and gets the place's name, or None.
        """
        self.fs: Final = fs
        self._only = only
        self.place: Final = place
        self._made: list[Path] = []
        self._path: Path | None = None
        self._lock = -1
        self._directories: set[Path] = set()

    def __enter__(self) -> Self:
        try:
            self._make_parents()
            remove_left_over(self.place)
            self._make()
            self._directories.add(self.path)
        except BaseException as error:
            self._exit(error)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit(error)

    def _exit(self, error: BaseException | None) -> None:
        if isinstance(error, OSError):
            # What it is about will be where the user said, and never had another name for them.
            error.filename, error.filename2 = map(
                self._in_place, (error.filename, error.filename2)
            )
        self._remove()

    def _in_place(self, path: object) -> object:
        if self._path is None or not isinstance(path, str | Path):
            return path
        if not Path(path).is_relative_to(self._path):
            return path
        inside = Path(path).relative_to(self._path)
        return str(self.place if str(inside) == self._only else self.place / inside)

    @property
    def path(self) -> Path:
        """Where files are written until they are published."""
        assert self._path is not None, "entered, and not published"
        return self._path

    def make(
        self,
        path: str,
        nbytes: int,
        known: Iterable[tuple[int, bytes]] = (),
        *,
        is_shared: bool = False,
    ) -> None:
        """Make a file of a size, with what is known of it.

        Args:
            path: relative, checked to be safe.
            nbytes: of the whole file.
            known: offsets and the bytes that are there.
            is_shared: whether other machines write to it: then it has its size at once, as
                none of them is to guess where it ends.
        """
        target = self._target(path)
        self._make_directories(target.parent)
        file = self.fs.create(target, 0o666)
        try:
            if nbytes >= _WORTH_RESERVING:
                self.fs.reserve(file, nbytes)
            if is_shared and nbytes:
                self.fs.write_at(file, b"\0", nbytes - 1)
            for offset, data in known:
                self.fs.write_at(file, data, offset)
        finally:
            self.fs.close(file)

    def open(self, path: str) -> File:
        """Open a file that was made, to be written at any offset by any thread."""
        return self.fs.reopen(self._target(path))

    def commit(self, path: str, nbytes: int) -> None:
        """Make a file durable.

        Raises:
            IntegrityError: it is not of that size.
        """
        file = self.open(path)
        try:
            self.fs.sync(file)
            check_length(self.fs, file, nbytes)
        finally:
            self.fs.close(file)

    def publish(self) -> None:
        """Give the directory its name, durably, or a file that is all of the export.

        Raises:
            UsageError: something has come there meanwhile.
        """
        for directory in sorted(self._directories, reverse=True):
            self.fs.sync_directory(directory)
        try:
            if self._only is None:
                # Over an empty directory this is one step, too.
                self.fs.rename(self.path, self.place)
            else:
                self._give_name(self._target(self._only))
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}:
                taken(self.place, "came into being meanwhile")
            raise
        # Not left to the way out: a signal may come before it begins.
        self._remove_directory()
        made, self._made = self._made, []
        for directory in {self.place.parent, *(parent.parent for parent in made)}:
            self.fs.sync_directory(directory)

    def _give_name(self, file: Path) -> None:
        """Give a file the place's name, unless something has it."""
        try:
            # A link, because a rename would replace a file that came there meanwhile.
            self.fs.link(file, self.place)
        except OSError as error:
            if error.errno not in _NO_LINKS or os.path.lexists(self.place):
                raise
            self.fs.rename(file, self.place)

    def _target(self, path: str) -> Path:
        return self.path.joinpath(*path.split("/"))

    def _make_parents(self) -> None:
        missing = [parent for parent in self.place.parents if not parent.exists()]
        for parent in reversed(missing):
            # Before it is made: a signal may come right after.
            self._made.append(parent)
            try:
                self.fs.mkdir(parent)
            except FileExistsError:
                self._made.remove(parent)

    def _make(self) -> None:
        parent = self.place.parent
        for _ in range(_TRIES):
            # Before it is made, too.
            self._path = parent / (_prefix(self.place) + secrets.token_hex(8))
            try:
                self.fs.mkdir(self._path)
            except FileExistsError:
                self._path = None
                continue
            with contextlib.suppress(FileNotFoundError):
                # Between the two calls another export may take it for a left-over.
                descriptor = _locked(self._path)
                if descriptor is not None:
                    self._lock = descriptor
                    return
        raise StorageError(
            f"no directory can be made and locked in `{printable(str(parent))}`",
            code="E_EXPORT_PLACE",
        )

    def _make_directories(self, directory: Path) -> None:
        if directory in self._directories:
            return
        self._make_directories(directory.parent)
        self.fs.mkdir(directory)
        self._directories.add(directory)

    def _remove_directory(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _remove(self) -> None:
        self._remove_directory()
        for parent in reversed(self._made):  # of an export that failed
            with contextlib.suppress(OSError):
                self.fs.rmdir(parent)
        self._made = []


def remove_left_over(place: Path) -> None:
    """Remove what exports to the same place left when they were killed.

    Links, files, and directories of others are not touched, nor what a living export writes.
    """
    for path in _left_over(place):
        try:
            descriptor = _locked(path)
        except OSError:
            continue
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _left_over(place: Path) -> Iterator[Path]:
    pattern = re.compile(re.escape(_prefix(place)) + "[0-9a-f]{16}")
    with os.scandir(place.parent) as entries:
        found = [
            entry
            for entry in entries
            if pattern.fullmatch(entry.name)
            and entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
        ]
    for entry in found:
        yield place.parent / entry.name


def _prefix(place: Path) -> str:
    # A digest, because a name may be as long as names can be.
    digest = hashlib.sha256(os.fsencode(place.name)).hexdigest()[:16]
    return f".ingot-export-{digest}-"


def _locked(path: Path) -> int | None:
    """Open and lock a directory, or return None while its writer lives."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink and os.path.samestat(
            os.fstat(descriptor), os.lstat(path)
        ):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
