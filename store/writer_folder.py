"""The folder of a writer in `tmp/`: whose it is, and the pins that keep gc from its blobs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from store.digest import Digest
from store.errors import StorageError
from store.fs import File, FileSystem
from store.status import Kind

LOCK: Final = "lock"
"""A file that a writer holds locked for as long as it lives."""
PINS: Final = "pins"
"""One digest a line."""
PURPOSE: Final = "purpose"
"""What gc says was unfinished if the writer dies, such as the name of a model."""


class WriterId(NamedTuple):
    """Who a folder in `tmp/` belongs to: `<host>.<boot id>.<pid>.<random>`."""

    host: str
    boot: str
    pid: str
    random: str

    @classmethod
    def parse(cls, folder: str) -> WriterId | None:
        """Read the name of a folder; return None where it is not that of a writer."""
        parts = folder.split(".")
        return cls(*parts) if len(parts) == 4 and all(parts) else None  # noqa: PLR2004

    def __str__(self) -> str:
        return f"{self.host}.{self.boot}.{self.pid}.{self.random}"


class Pins:
    """The blobs that a living writer needs; gc keeps them. Threads may share one."""

    def __init__(self, fs: FileSystem, folder: Path) -> None:
        """Make the file of pins in a writer's folder."""
        self._fs = fs
        self._mutex = threading.Lock()
        self._pinned: set[Digest] = set()
        self._file: File | None = fs.create(folder / PINS)

    def add(self, digests: Iterable[Digest]) -> None:
        """Pin blobs; those that are pinned already cost nothing.

        Raises:
            OSError: the pin could not be written whole.
            StorageError: an earlier one could not.
        """
        with self._mutex:
            fresh = [one for one in dict.fromkeys(digests) if one not in self._pinned]
            if not fresh:
                return
            file = self._file
            if file is None:
                message = "an earlier pin of this writer failed, so its pins cannot be trusted"
                raise StorageError(message, code="E_PIN")
            try:
                self._fs.write(file, "".join(f"{digest}\n" for digest in fresh).encode())
            except BaseException:
                # What follows a torn line would be read as part of it.
                self._file = None
                self._fs.close(file)
                raise
            self._pinned.update(fresh)

    def close(self) -> None:
        """Close the file; the pins hold until the folder goes."""
        if self._file is not None:
            self._fs.close(self._file)


def remove_folder(fs: FileSystem, folder: Path) -> None:
    """Remove the folder of a writer; the caller holds the shared lock, and the writer's own.

    In that of a gc that was interrupted there may be folders, which it had moved there.
    """
    # The lock goes last: without it the folder is a dead writer's.
    for name, kind in sorted(fs.entries(folder), key=lambda entry: entry[0] == LOCK):
        remove_tree(fs, folder / name, kind)
    fs.rmdir(folder)


def remove_tree(fs: FileSystem, path: Path, kind: Kind) -> None:
    """Remove a file, or a directory with all that is in it."""
    if kind is not Kind.DIRECTORY:
        fs.unlink(path)
        return
    # Not by recursion, which ends at a depth that paths do not.
    found, waiting = [], [path]
    while waiting:
        directory = waiting.pop()
        found.append(directory)
        for name, inner in fs.entries(directory):
            if inner is Kind.DIRECTORY:
                waiting.append(directory / name)
            else:
                fs.unlink(directory / name)
    for directory in reversed(found):
        fs.rmdir(directory)
