"""What names stood for before: manifests that were replaced or removed, until gc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from store import limits
from store.catalog import StoredManifest
from store.digest import Digest
from store.errors import UsageError
from store.fs import FileSystem
from store.names import ModelName
from store.paths import Layout
from store.status import Kind, Status

_DEPTH: Final = 4


class Former(NamedTuple):
    """A manifest that a name stood for before.

    Attributes:
        digest: of the manifest.
        path: of the file.
    """

    name: ModelName
    digest: Digest
    path: Path


@dataclass(frozen=True, slots=True)
class History:
    """The files `history/<host>/<namespace>/<model>/<tag>/sha256-<hex>` of a store.

    Each is a hard link to a manifest, so it costs no space and has the time at which the name
    was set to it. None is a root: gc removes them before any blob.
    """

    fs: FileSystem
    layout: Layout

    def keep(self, name: ModelName, manifest: Path) -> None:
        """Link the file `manifest`, which `name` is about to lose, durably.

        The caller holds the shared lock. Where that cannot be done (a full disk, a file system
        without hard links) nothing is kept: an undo must not stand in the way of a model.
        """
        # Linked before it is read, so that the file gets the name of its own content, whoever
        # replaces the manifest meanwhile. In tmp/, where gc removes what a kill leaves.
        partial = self.layout.tmp / f"former-{os.urandom(8).hex()}"
        try:
            self.fs.link(manifest, partial)
            self._put(name, partial)
        except OSError:
            return
        finally:
            # It is still there, too, if it was a second name of what is kept already: then
            # POSIX has `rename` do nothing.
            with contextlib.suppress(OSError):
                self.fs.unlink(partial)

    def listed(self) -> Iterator[Former]:
        """List everything that names stood for before, reading nothing."""
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            if len(parts) < _DEPTH:
                inner = self._entries(self.layout.history.joinpath(*parts))
                waiting += [(*parts, one) for one, kind in inner if kind is Kind.DIRECTORY]
                continue
            with contextlib.suppress(UsageError):  # not the path of a model
                yield from self._of(ModelName(*parts))

    def read(self, name: ModelName | None = None) -> list[StoredManifest]:
        """Read what `name` stood for before, or all names, the latest first.

        What a name stands for now may be among it: it was brought back, or whoever was about
        to replace it has died.
        """
        found = []
        for former in self.listed() if name is None else self._of(name):
            with contextlib.suppress(FileNotFoundError):  # gc was here since
                data, status = self._content(former.path)
                # Anything else is not what the name stood for: damaged, or not ours.
                if Digest.of(data) == former.digest:
                    found.append(StoredManifest(former.name, data, status.mtime_ns))
        return sorted(found, key=lambda one: -one.mtime_ns)

    def roots(self) -> list[Path]:
        """Return everything directly in `history/`, for gc."""
        return [self.layout.history / name for name, _ in self._entries(self.layout.history)]

    def _of(self, name: ModelName) -> Iterator[Former]:
        directory = self.layout.history.joinpath(*name.parts)
        for file, kind in self._entries(directory):
            digest = Digest.from_file_name(file)
            if kind is Kind.FILE and digest is not None:
                yield Former(name, digest, directory / file)

    def _put(self, name: ModelName, partial: Path) -> None:
        data, status = self._content(partial)
        # One that is longer never was a manifest. Of what was not read to its end (a device
        # that fails may say that a file is empty) the digest is not known.
        if len(data) > limits.MANIFEST_BYTES or len(data) != status.size:
            return
        directory = self.layout.history
        for part in name.parts:
            directory /= part
            seen = self.fs.status(directory)
            if seen is None:
                with contextlib.suppress(FileExistsError):  # another writer was first
                    self.fs.mkdir(directory, 0o755)
            elif seen.kind is not Kind.DIRECTORY:
                return  # a store may have come in an archive: what a link leads to is not ours
        self.fs.rename(partial, directory / Digest.of(data).file_name)
        # As of a manifest: another process may have made a parent and not have synced it yet.
        for made in (directory, *directory.parents):
            self.fs.sync_directory(made)
            if made == self.layout.history:
                break

    def _content(self, path: Path) -> tuple[bytes, Status]:
        file = self.fs.open(path)
        try:
            data = self.fs.read(file, limits.MANIFEST_BYTES + 1, 0)
            return data, self.fs.status_of(file)
        finally:
            self.fs.close(file)

    def _entries(self, directory: Path) -> list[tuple[str, Kind]]:
        try:
            return self.fs.entries(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
