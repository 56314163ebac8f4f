"""Sweep: free what no model names, safe beside living writers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store.errors import IngotError, is_no_space
from store.fs import FileSystem
from store.mark import GcPlan, Marking
from store.store import Store
from store.writer_folder import remove_tree

WAIT: Final = 10.0
"""Seconds that gc waits for writers, who hold the lock for moments."""
_GONE: Final = "gone-"
"""Begins the names of what is on its way out, in gc's own folder."""


@dataclass(frozen=True, slots=True)
class GarbageCollector:
    """One run of gc over a store.

    Attributes:
        forget: hosts whose writers are known to be dead.
        wait: seconds to wait for the lock.
    """

    store: Store
    forget: frozenset[str] = frozenset()
    wait: float = WAIT

    def plan(self) -> GcPlan:
        """Return what a run would remove, without removing or writing anything."""
        if self.store.fs.status(self.store.layout.locks) is None:
            # None of our writers was ever here: a store of Ollama stays as it is.
            return self._mark(None)
        with self.store.lock.exclusive(self.wait):
            return self._mark(None)

    def run(self) -> GcPlan:
        """Remove what nothing names and return it.

        Files are renamed away under the lock and unlinked after it, so that writers wait for
        moments only.

        Raises:
            IntegrityError: a manifest cannot be read; nothing was removed.
            UnsupportedError: locks of this file system exclude nobody; nothing was removed.
            BusyError: the lock was not free in time.
        """
        with contextlib.ExitStack() as stack:
            trash = None
            try:
                trash = stack.enter_context(self.store.writing("")).folder
            except OSError as error:
                # Not even an empty folder fits: whoever runs gc now needs it most.
                if not is_no_space(error):
                    raise
            plan = self._run(trash)
        self._prune_directories()
        return plan

    def _run(self, trash: Path | None) -> GcPlan:
        with self.store.lock.exclusive(self.wait):
            self.store.lock.check_effective("gc")
            self._sync_manifests()
            plan = self._mark(trash)
            self._sweep(plan, trash)
        if trash is not None:
            for name, kind in self.store.fs.entries(trash):
                if name.startswith(_GONE):
                    remove_tree(self.store.fs, trash / name, kind)
        return plan

    def _mark(self, own: Path | None) -> GcPlan:
        return Marking(self.store, self.forget).run(own)

    def _sync_manifests(self) -> None:
        # An unlinked tag may come back after a power cut until its directory is synced, and
        # would then name blobs that are gone.
        for directory in self.store.catalog.directories():
            self.store.fs.sync_directory(directory)

    def _sweep(self, plan: GcPlan, trash: Path | None) -> None:
        fs, layout = self.store.fs, self.store.layout
        # First, and durable before a blob goes: what history has can be brought back.
        former = self.store.history.roots()
        if former:
            self._remove_all(former, trash, "history-")
            fs.sync_directory(layout.history)
        paths = [self.store.blobs.path(blob.digest) for blob in plan.blobs]
        paths += [layout.tmp / writer.folder for writer in plan.unfinished]
        paths += [layout.tmp / name for name in plan.leftovers]
        paths += [layout.quarantine / name for name, _ in plan.quarantined]
        paths += [layout.origins / digest.file_name for digest in plan.origins]
        self._remove_all(paths, trash, "")
        for blob in plan.blobs:
            self.store.memo.forget(blob.digest)

    def _remove_all(self, paths: list[Path], trash: Path | None, prefix: str) -> None:
        fs = self.store.fs
        for number, path in enumerate(paths):
            if trash is not None and _moved(fs, path, trash / f"{_GONE}{prefix}{number}"):
                continue
            if (seen := fs.status(path)) is not None:
                remove_tree(fs, path, seen.kind)

    def _prune_directories(self) -> None:
        # Excluding writers, who make these directories and then rename into them.
        root = self.store.layout.manifests
        with contextlib.suppress(IngotError), self.store.lock.exclusive(self.wait):
            for directory in self.store.catalog.directories():
                if directory != root and not self.store.fs.entries(directory):
                    self.store.fs.rmdir(directory)


def _moved(fs: FileSystem, path: Path, target: Path) -> bool:
    try:
        fs.rename(path, target)
    except OSError as error:
        if not is_no_space(error):
            raise
        return False  # on a full disk a directory cannot grow
    return True
