"""The store as a whole: its directories, its version, and whether it is safe to write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from store.blobs import BlobStore
from store.catalog import Catalog
from store.durable import write_small
from store.errors import (
    IntegrityError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from store.fs import FileSystem
from store.lock import StoreLock
from store.memo import Memo
from store.names import ModelName
from store.paths import Layout
from store.status import Kind, Status
from store.text import printable

if TYPE_CHECKING:
    from store.history import History
    from store.origins import Origins
    from store.writer import Writer

VERSION: Final = 1
_WORLD_WRITABLE: Final = 0o002
_OF_A_GROUP: Final = 0o2020
"""Of a root that a group shares: it may write there, and what it makes there is the group's."""
_GROUP: Final = 0o020
_STICKY: Final = 0o1000
_OF_A_DISK: Final = "lost+found"


class Store:
    """A content-addressed store of models, in Ollama's layout.

    Opening one touches nothing: readers need no lock and no permission to write.

    Attributes:
        layout: where everything is.
        blobs: bytes by digest.
        catalog: manifests by name.
        lock: shared by writers, exclusive for gc.
        memo: a cache of what was seen.
    """

    def __init__(
        self,
        root: Path,
        fs: FileSystem | None = None,
        memo: Memo | None = None,
        *,
        allow_unsafe: bool = False,
        allow_foreign: bool = False,
    ) -> None:
        """Open the store at `root`, which need not exist yet.

        Args:
            fs: the door to the file system; the real one unless a test brings another.
            memo: the cache; the one in the store unless a test brings another.
            allow_unsafe: write even where others could change what we write.
            allow_foreign: make a store of a directory that holds something else.

        Raises:
            UnsupportedError: a newer ingot made the store.
        """
        self.fs: Final = fs or FileSystem()
        self.layout: Final = Layout(root)
        self.memo: Final = memo or Memo(self.layout.memo)
        self.blobs: Final = BlobStore(self.fs, self.layout, self.memo)
        self.catalog: Final = Catalog(self.fs, self.layout)
        self.lock: Final = StoreLock(self.fs, self.layout)
        self._allow_unsafe = allow_unsafe
        self._allow_foreign = allow_foreign
        self._writers: list[Writer] = []
        self._check_version()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def origins(self) -> Origins:
        """Where models were made from."""
        from store.origins import Origins  # noqa: PLC0415 - 0.7 ms that `list` does without

        return Origins(self.fs, self.layout)

    @property
    def history(self) -> History:
        """What names stood for before."""
        from store.history import History  # noqa: PLC0415 - as above

        return History(self.fs, self.layout)

    @property
    def exists(self) -> bool:
        """Whether there is something of a store at the root; an empty directory is none."""
        return any(self.fs.status(path) is not None for path in self._parts())

    def foreign_entry(self) -> str | None:
        """Return the name of something that keeps the root from being a store, or None.

        A store has VERSION, or Ollama's `manifests`. An empty directory may become one, and so
        may what a process left that was killed while it made one.
        """
        layout, found = self.layout, dict(self.fs.entries(self.layout.root))
        if layout.version.name in found or found.get(layout.manifests.name) is Kind.DIRECTORY:
            return None
        ours = {path.name for path in self._parts()} | {_OF_A_DISK}
        # `.DS_Store` and the like come by themselves.
        others = (name for name in found if name not in ours and not name.startswith("."))
        return min(others, default=None)

    def check_ours(self) -> None:
        """Make sure that the root is a store, or may become one, before anything else is done.

        Raises:
            UsageError: the directory holds something else.
        """
        if self._allow_foreign or self.fs.status(self.layout.root) is None:
            return
        if name := self.foreign_entry():
            raise UsageError(
                f"`{self.layout.root}` is not a store, and does not become one: it has "
                f"`{printable(name)}`",
                code="E_STORE_FOREIGN",
            )

    def prepare(self) -> None:
        """Make what a writer needs, durably; a store that is there already is kept.

        Raises:
            UsageError: the directory holds something else.
            StorageError: the store is open to others, or belongs to somebody else.
        """
        root = self.layout.root
        if self.fs.status(root) is None:
            for parent in reversed(root.parents):
                if self.fs.status(parent) is None:
                    self._mkdir(parent, 0o755)
            self._mkdir(root, 0o700)
        seen = self.fs.status(root)
        self.fs.is_shared = seen is not None and seen.mode & _OF_A_GROUP == _OF_A_GROUP
        if not self._allow_unsafe:
            for directory in (root, *self.layout.directories):
                self._check_safe(directory)
        self.check_ours()
        layout = self.layout
        for directory in layout.directories:
            if self.fs.status(directory) is None:
                self._mkdir(directory, 0o700 if directory == layout.origins else 0o755)
        if self.fs.status(layout.version) is None:
            self._sync_parents()
            with self.lock.shared():
                self._write_version()

    @contextlib.contextmanager
    def writing(self, purpose: str | ModelName) -> Iterator[Writer]:
        """Yield a writer, whose pins hold until the context ends."""
        from store.writer import Writer  # noqa: PLC0415 - readers start without it

        self.prepare()
        with Writer(self.blobs, self.catalog, self.lock, str(purpose), self._writers) as writer:
            yield writer

    def remove(self, names: Sequence[ModelName]) -> None:
        """Untag all of `names` durably, or none of them; blobs and history stay until gc.

        Raises:
            NotFoundError: some are not there; nothing was removed.
        """
        missing = []
        for name in dict.fromkeys(names):
            try:
                self.catalog.check_removable(name)
            except NotFoundError as error:
                missing.append((name, error))
        if len(missing) == 1:
            raise missing[0][1]
        if missing:
            what = ", ".join(f"`{name}`" for name, _ in missing)
            raise NotFoundError(f"models {what} not found", code="E_NOT_FOUND")
        self.prepare()
        with self.lock.shared():
            for name in dict.fromkeys(names):
                self.history.keep(name, self.catalog.path(name))
                self.catalog.remove(name)

    def close(self) -> None:
        """Save the memo, and clean up after writers that a signal kept from doing so."""
        for writer in list(self._writers):
            writer.close()
        self.memo.close()
        if self.fs.is_shared:
            with contextlib.suppress(OSError):  # there is none, or it is another's
                os.chmod(self.layout.memo, 0o660)

    def _parts(self) -> tuple[Path, ...]:
        # VERSION first, which nearly every store has.
        return (self.layout.version, *self.layout.directories, self.layout.memo)

    def _mkdir(self, directory: Path, mode: int) -> None:
        with contextlib.suppress(FileExistsError):  # another process was first
            self.fs.mkdir(directory, mode)
        self.fs.sync_directory(directory.parent)

    def _sync_parents(self) -> None:
        # Whoever made them may have died before syncing them. Only what is ours can be that,
        # and of the rest some cannot be opened.
        for made in (self.layout.root, *self.layout.root.parents):
            seen = self.fs.status(made)
            if seen is None or seen.owner != os.geteuid():
                break
            with contextlib.suppress(PermissionError):
                self.fs.sync_directory(made.parent)

    def _write_version(self) -> None:
        # Renamed into place, so that nobody ever reads half a version; in tmp/, where gc
        # removes what a killed process leaves. By chance, as containers share process ids.
        partial = self.layout.tmp / f"VERSION-{os.urandom(8).hex()}"
        try:
            write_small(self.fs, partial, f"{VERSION}\n".encode())
            self.fs.rename(partial, self.layout.version)
        except BaseException:
            with contextlib.suppress(OSError):
                self.fs.unlink(partial)
            raise
        self.fs.sync_directory(self.layout.root)

    def _check_version(self) -> None:
        if self.fs.status(self.layout.version) is None:
            return
        file = self.fs.open(self.layout.version)
        try:
            text = self.fs.read(file, 64, 0).strip()
        finally:
            self.fs.close(file)
        if not text.isdigit():
            message = f"`{self.layout.version}` holds no version, expected `{VERSION}`"
            raise IntegrityError(message, code="E_VERSION")
        if int(text) > VERSION:
            raise UnsupportedError(
                f"store `{self.layout.root}` is version {int(text)}, this ingot knows "
                f"{VERSION}",
                code="E_VERSION",
                hint="Upgrade ingot",
            )

    def _check_safe(self, directory: Path) -> None:
        seen = self.fs.status(directory)
        if seen is None or seen.kind is Kind.LINK:
            return  # the user's own link to another disk
        if why := _why_unsafe(seen, is_shared=self.fs.is_shared):
            raise StorageError(
                f"store directory `{directory}` {why}",
                code="E_STORE_UNSAFE",
                hint="Take the store into your own hands (`chmod o-w`, `chown`), or set "
                "INGOT_ALLOW_UNSAFE_STORE=1 if you know who else can write there",
            )


def _why_unsafe(seen: Status, *, is_shared: bool) -> str | None:
    if seen.kind is not Kind.DIRECTORY:
        return f"is a {seen.kind}, expected a directory"
    if seen.mode & _WORLD_WRITABLE and not seen.mode & _STICKY:
        return "can be written by everybody"
    if seen.owner not in {0, os.geteuid()} and not (is_shared and seen.mode & _GROUP):
        return f"belongs to another user (uid {seen.owner})"
    return None
