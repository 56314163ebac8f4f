"""Where finished bytes go: the store, or the directory of an export."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from store import BlobRef, CommitOutcome
from store.fs import FileSystem


class Sink(Protocol):
    """Files that are written by others and committed by their owner alone.

    `store.writer.Writer` is one: a blob gets its name in the store only after it is durable,
    and pinned against garbage collection.

    Example:
        >>> path = sink.open()
        >>> made = make_blob(MakeJob(0, plan, path, seed), sink.fs, workers, runtime, tell)
        >>> sink.commit(path, made.ref)
    """

    @property
    def fs(self) -> FileSystem:
        """The door to the file system that the paths are on."""
        ...

    def open(self) -> Path:
        """Make an empty file to be written, and return its path."""
        ...

    def commit(self, path: Path, ref: BlobRef) -> CommitOutcome:
        """Make a written file durable, and give it its place.

        Raises:
            IntegrityError: the file does not have the bytes that were written.
        """
        ...

    def discard(self, path: Path) -> None:
        """Remove a file that was given up."""
        ...
