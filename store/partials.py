"""Partial files of blobs: a writer's own, and what dead writers have left of theirs."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Final

from store.digest import Digest
from store.fs import File, FileSystem
from store.lock import StoreLock
from store.status import Kind
from store.writer_folder import LOCK, WriterId, remove_folder

_SUFFIX: Final = ".partial"


class Partials:
    """Files in the folder of a writer, each kept open from before its first write.

    A blob whose digest is known beforehand has a partial file of that name. Where its writer
    ends before the blob is whole, the file stays in the folder, for a later writer to go on
    with, or for gc to remove.
    """

    def __init__(self, fs: FileSystem, folder: Path, lock: StoreLock) -> None:
        self._fs, self._folder, self._lock = fs, folder, lock
        self._numbers = itertools.count()
        self._files: dict[Path, File] = {}
        self._left: dict[Digest, Path] | None = None
        self._dead: dict[Path, File] = {}

    def path(self, suffix: str) -> Path:
        """Return a path in the folder that nothing has yet."""
        return self._folder / f"{next(self._numbers)}{suffix}"

    def open(self) -> Path:
        """Make an empty partial file for one blob and return its path."""
        return self._create(self.path(_SUFFIX))

    def link(self, source: Path) -> Path:
        """Make a second name of a file that nobody writes to, and return its path.

        Raises:
            OSError: the file system, or its rules, do not allow it.
        """
        path = self.path(_SUFFIX)
        self._fs.link(source, path)
        self._files[path] = self._fs.open(path)
        return path

    def resume(self, digest: Digest) -> Path:
        """Return the partial file of a blob: with what a dead writer has left, or empty.

        What is in it may be damaged: hash all of it.
        """
        path = self._folder / f"{digest.file_name}{_SUFFIX}"
        left = self.left().pop(digest, None)
        if left is None:
            return self._create(path)
        self._fs.rename(left, path)
        # A failure to write pages back that nobody was told of is reported to this descriptor,
        # too, while the kernel has the inode; once it has not, the bytes come from the disk.
        self._files[path] = self._fs.reopen(path)
        return path

    def left(self) -> dict[Digest, Path]:
        """Return what dead writers have left of blobs; they count as living from now on."""
        if self._left is None:
            self._left = {}
            # gc, which removes the folders of the dead, waits.
            with self._lock.shared():
                for name, kind in self._fs.entries(self._folder.parent):
                    if kind is Kind.DIRECTORY and WriterId.parse(name) is not None:
                        self._take_over(self._folder.parent / name)
        return self._left

    def take(self, path: Path) -> File:
        """Return the open partial file at `path`, which is the caller's from now on."""
        return self._files.pop(path)

    def discard(self, path: Path) -> None:
        """Remove the partial file at `path`; harmless where it is gone."""
        file = self._files.pop(path, None)
        if file is None:
            return
        # What cannot be removed now goes with the folder.
        with contextlib.suppress(OSError):
            self._fs.close(file)
        with contextlib.suppress(OSError):
            self._fs.unlink(path)

    def close(self) -> bool:
        """Give up what nobody can go on with; return whether anything stays.

        The caller holds the shared lock.
        """
        for path in list(self._files):
            if _digest_of(path.name) is None or not self._fs.status_of(self._files[path]).size:
                self.discard(path)
        stays = bool(self._files)
        for file in self._files.values():
            self._fs.close(file)
        self._files.clear()
        for folder, life in self._dead.items():
            if not self._has_left(folder):
                remove_folder(self._fs, folder)
            self._fs.close(life)
        self._dead.clear()
        return stays

    def _create(self, path: Path) -> Path:
        # Kept open until the end: a descriptor that was open before the first write reports
        # every failure of the kernel to write pages back. One that is opened for the sync
        # might miss those that happened in between, and would call lost data durable.
        self._files[path] = self._fs.create(path)
        return path

    def _take_over(self, folder: Path) -> None:
        assert self._left is not None, "the caller has made it"
        found = self._has_left(folder) if folder != self._folder else {}
        life = self._fs.try_lock(folder / LOCK, exclusive=True) if found else None
        if life is not None:
            self._dead[folder] = life
            self._left |= found

    def _has_left(self, folder: Path) -> dict[Digest, Path]:
        with contextlib.suppress(OSError):  # of another user, or gone
            return {
                digest: folder / name
                for name, kind in self._fs.entries(folder)
                if kind is Kind.FILE and (digest := _digest_of(name)) is not None
            }
        return {}


def _digest_of(name: str) -> Digest | None:
    stem = name.removesuffix(_SUFFIX)
    return Digest.from_file_name(stem) if stem != name else None
