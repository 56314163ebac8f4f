"""Names of models: the manifest behind each, read, replaced and removed atomically."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from store import limits
from store.digest import Digest
from store.errors import IntegrityError, NotFoundError, UsageError
from store.fs import FileSystem
from store.manifest import Manifest
from store.names import ModelName
from store.paths import Layout
from store.status import Kind
from store.text import printable

_DEPTH: Final = 4
IGNORED: Final = frozenset({".DS_Store"})
"""What a Mac's Finder leaves in every directory."""


class Entry(NamedTuple):
    """One path below `manifests/`.

    Attributes:
        path: of the file.
        name: of the model, or None where the path is not that of one.
        why: why the path is not that of a model; empty where it is.
    """

    path: Path
    name: ModelName | None
    why: str = ""


class StoredManifest(NamedTuple):
    """A manifest as it was read.

    Attributes:
        data: the bytes of the file, which the digest is of.
        mtime_ns: when the tag was set.
    """

    name: ModelName
    data: bytes
    mtime_ns: int

    @property
    def digest(self) -> Digest:
        """The model's identity: what `list` shows the beginning of."""
        return Digest.of(self.data)

    def parse(self) -> Manifest:
        """Read the document.

        Raises:
            IntegrityError: it is malformed.
        """
        return Manifest.parse(self.data, f"of `{self.name}`")


class Catalog:
    """The files `manifests/<host>/<namespace>/<model>/<tag>` of a store."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self.fs: Final = fs
        self.layout: Final = layout

    def path(self, name: ModelName) -> Path:
        """Return where the manifest of `name` is, if it is there."""
        return self.layout.manifests.joinpath(*name.parts)

    def get(self, name: ModelName | StoredManifest) -> StoredManifest:
        """Read the manifest of `name`; one that was read already is itself.

        Where there is none, one whose name reads the same is it: other programs write the
        default host and namespace as they were typed.

        Raises:
            NotFoundError: there is no such model.
            IntegrityError: the file cannot be a manifest.
        """
        if isinstance(name, StoredManifest):
            return name
        found = self.find(name)
        if found is None:
            names = (entry.name for entry in self.entries() if entry.name is not None)
            alike = next((one for one in names if str(one) == str(name)), None)
            found = None if alike is None else self.find(alike)
        if found is None:
            raise _not_found(name)
        return found

    def check_removable(self, name: ModelName) -> None:
        """Make sure that there is something under `name`, or durable that there is nothing.

        Raises:
            NotFoundError: there is nothing, and no power cut brings anything back.
        """
        if self.fs.status(self.path(name)) is None:
            self._sync_absence(name)
            raise _not_found(name)

    def find(self, name: ModelName) -> StoredManifest | None:
        """Read the manifest of `name`, or None.

        Raises:
            IntegrityError: the file cannot be a manifest.
        """
        self._check_links(name)
        seen = self.fs.status(self.path(name))
        if seen is None:
            return None
        if seen.kind is not Kind.FILE:
            raise IntegrityError(
                f"manifest of `{name}` is a {seen.kind}, expected a file", code="E_MANIFEST"
            )
        try:
            file = self.fs.open(self.path(name))
        except FileNotFoundError:
            return None
        try:
            # One descriptor, so that what is read is the old manifest or the new one whole.
            data = self.fs.read(file, limits.MANIFEST_BYTES + 1, 0)
        finally:
            self.fs.close(file)
        return StoredManifest(name, data, seen.mtime_ns)

    def entries(self) -> Iterator[Entry]:
        """Walk `manifests/` in the order of names; what is not a model comes with a reason."""
        if self.fs.status(self.layout.manifests) is not None:
            yield from self._walk(self.layout.manifests, ())

    def directories(self) -> list[Path]:
        """Return `manifests/` and every directory below it, the deepest first."""
        found: list[Path] = []
        waiting = [self.layout.manifests]
        while waiting:
            directory = waiting.pop()
            found.append(directory)
            waiting += [
                directory / name
                for name, kind in self.fs.entries(directory)
                if kind is Kind.DIRECTORY
            ]
        return sorted(found, key=lambda path: (-len(path.parts), path))

    def check_settable(self, name: ModelName) -> None:
        """Refuse a name that nothing can be set to, before anything is made for it.

        A manifest that is there may be torn: it is replaced.

        Raises:
            UsageError: it differs from an existing one in case alone.
            IntegrityError: a link leads to it, or no file is there.
        """
        self._check_links(name)
        self.check_case(name)
        self.find(name)

    def check_free(self, name: ModelName) -> None:
        """Raise UsageError where a model has this name already."""
        there = self.find(name)
        if there is not None:
            raise UsageError(
                f"`{name}` already exists ({there.digest.short}), expected a new name",
                code="E_NAME_TAKEN",
            )

    def check_case(self, name: ModelName) -> None:
        """Refuse a name that differs from an existing one in case alone.

        Ollama compares names without case, and file systems may.

        Raises:
            UsageError: there is one.
        """
        directory = self.layout.manifests
        for part in name.parts:
            if self.fs.status(directory) is None:
                return
            for other, _ in self.fs.entries(directory):
                if other != part and other.casefold() == part.casefold():
                    there = (directory / other).relative_to(self.layout.manifests)
                    raise UsageError(
                        f"`{name}` differs only in case from the existing "
                        f"`{printable(str(there))}`",
                        code="E_NAME_COLLISION",
                        hint="Use the existing spelling or another name",
                    )
            directory /= part

    def put(self, name: ModelName, partial: Path) -> None:
        """Set `name` to the synced manifest file `partial`, durably.

        The caller holds the shared lock.
        """
        self._check_links(name)
        target = self.path(name)
        directory = self.layout.manifests
        for part in name.parts[:-1]:
            directory /= part
            if self.fs.status(directory) is None:
                self._mkdir(directory)
        self.fs.rename(partial, target)
        # The whole chain, not only what was made here: another process may have made a
        # parent a moment ago and not have synced it yet.
        for made in (target.parent, *target.parent.parents):
            self.fs.sync_directory(made)
            if made == self.layout.root:
                break

    def remove(self, name: ModelName) -> None:
        """Untag `name` durably; blobs stay until gc. The caller holds the shared lock."""
        self._check_links(name)
        try:
            self.fs.unlink(self.path(name))
        except FileNotFoundError as error:
            self._sync_absence(name)
            raise _not_found(name) from error
        self.fs.sync_directory(self.path(name).parent)

    def _sync_absence(self, name: ModelName) -> None:
        # Whoever removed it may have died before syncing that.
        for directory in self.path(name).parents[:_DEPTH]:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self.fs.sync_directory(directory)
                return

    def _check_links(self, name: ModelName) -> None:
        # A store may have come in an archive: what is below such a link is not ours.
        directory = self.layout.manifests
        for part in name.parts[:-1]:
            directory /= part
            seen = self.fs.status(directory)
            if seen is not None and seen.kind is Kind.LINK:
                raise IntegrityError(
                    f"`{directory.relative_to(self.layout.root)}` is a link, expected a "
                    "directory",
                    code="E_MANIFEST",
                    hint="Remove the link, or link the whole store instead",
                )

    def _mkdir(self, directory: Path) -> None:
        with contextlib.suppress(FileExistsError):  # another writer was first
            self.fs.mkdir(directory)

    def _walk(self, directory: Path, parts: tuple[str, ...]) -> Iterator[Entry]:
        try:
            found = self.fs.entries(directory)
        except FileNotFoundError:  # a gc removed the empty directory since it was listed
            return
        for part, kind in found:
            path = directory / part
            here = (*parts, part)
            if part in IGNORED:
                continue
            if kind is Kind.DIRECTORY and len(here) < _DEPTH:
                yield from self._walk(path, here)
            elif kind is Kind.FILE and len(here) == _DEPTH:
                yield _entry(path, here)
            else:
                yield Entry(path, None, f"a {kind} at depth {len(here)} of manifests/")


def _not_found(name: ModelName) -> NotFoundError:
    return NotFoundError(f"model `{name}` not found", code="E_NOT_FOUND")


def _entry(path: Path, parts: tuple[str, ...]) -> Entry:
    host, namespace, model, tag = parts
    try:
        return Entry(path, ModelName(host, namespace, model, tag))
    except UsageError as error:
        return Entry(path, None, str(error))
