"""Writers: whoever adds blobs and names to the store."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from store.blob_writer import BlobWriter
from store.blobs import BlobRef, BlobStore, CommitOutcome
from store.catalog import Catalog, StoredManifest
from store.digest import Digest
from store.durable import check_length, write_small
from store.errors import IngotError, IntegrityError, StorageError
from store.fs import File
from store.history import History
from store.lock import StoreLock
from store.manifest import Manifest
from store.names import ModelName
from store.origins import Origin, Origins
from store.partials import Partials
from store.writer_folder import LOCK, PURPOSE, Pins, WriterId, remove_folder


class BlobsGoneError(IntegrityError):
    """Blobs that a manifest is about to name are no longer there.

    Attributes:
        gone: the blobs; make them again and publish again.
    """

    def __init__(self, name: ModelName, gone: tuple[BlobRef, ...]) -> None:
        super().__init__(
            f"{len(gone)} blobs of `{name}` are missing or have another size, the first is "
            f"{gone[0].digest}",
            code="E_BLOB_MISSING",
            hint="Another program changes this store: look for an `ollama serve` without "
            "OLLAMA_NOPRUNE=1, then create the model again",
        )
        self.gone = gone


class Publication(NamedTuple):
    """What publishing a manifest did.

    Attributes:
        digest: of the manifest.
        previous: what the name stood for before, or None.
    """

    digest: Digest
    previous: StoredManifest | None


class Writer:
    """A folder in `tmp/` with partial files and pins, beside a lock held for life.

    As Nix's temporary roots: a blob is pinned before it is looked at, and gc, which excludes
    writers for moments, keeps what living writers have pinned. Use as a context manager.

    A writer owns its partial files: it makes them, and it alone syncs them and puts them into
    the store. What they hold is written by whoever has the path, in any thread or process
    (`BlobWriter`).

    Attributes:
        fs: the store's file system.
        folder: in `tmp/`.
        partials: its partial files.
    """

    def __init__(
        self,
        blobs: BlobStore,
        catalog: Catalog,
        lock: StoreLock,
        purpose: str,
        open_writers: list[Writer],
    ) -> None:
        """Make the folder.

        Args:
            purpose: what gc says was unfinished if this process dies, such as a model's name;
                empty where nothing would be.
            open_writers: where this one is listed until it is closed.
        """
        fs = blobs.fs
        identity = WriterId(*fs.machine(), str(fs.process()), os.urandom(8).hex())
        self.folder: Final = blobs.layout.tmp / str(identity)
        self.fs: Final = fs
        self._lock, self._blobs, self._catalog = lock, blobs, catalog
        self._origins = Origins(fs, blobs.layout)
        self._history = History(fs, blobs.layout)
        self.partials: Final = Partials(fs, self.folder, lock)
        self._wanted: frozenset[BlobRef] | None = None
        self._renewed: set[Digest] | None = None
        self._life: File | None = None
        self._pins: Pins | None = None
        self._open_writers = open_writers
        open_writers.append(self)
        try:
            # Under the shared lock, so that gc never meets a folder without its lock.
            with lock.shared():
                fs.mkdir(self.folder, 0o700)
                self._life = fs.try_lock(self.folder / LOCK, exclusive=True)
                self._pins = Pins(fs, self.folder)
            if purpose:
                write_small(fs, self.folder / PURPOSE, purpose.encode(), sync=False)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accept_only(self, wanted: frozenset[BlobRef]) -> None:
        """Refuse every blob but these, which a repair found bad or missing."""
        self._wanted = wanted

    def distrust(self) -> None:
        """Replace the files of blobs that are committed from here on, once each."""
        self._renewed = set()

    def open(self) -> Path:
        """Make an empty partial file for one blob and return its path.

        Whoever makes the blob opens the path and writes there alone; then `commit` or
        `discard` it here.
        """
        return self.partials.open()

    def commit(self, path: Path, ref: BlobRef) -> CommitOutcome:
        """Make the partial file at `path` durable and put it into the store.

        Args:
            path: from `open`; nobody writes there any more.
            ref: what it holds, from `BlobWriter.finish`.

        Raises:
            IntegrityError: the file does not have the size of `ref`.
        """
        file = self.partials.take(path)
        try:
            if self._wanted is not None and ref not in self._wanted:
                self.fs.unlink(path)
                return CommitOutcome.REFUSED
            self.fs.freeze(file)
            self.fs.sync(file)
            check_length(self.fs, file, ref.size)
        finally:
            self.fs.close(file)
        # Pin, then look: the other way round gc may take the blob between the two.
        with self._lock.shared():
            self._pin([ref])
            try:
                is_bad = self._wanted is not None
                trusts = self._renewed is None or ref.digest in self._renewed
                outcome = self._blobs.install(path, ref, is_bad=is_bad, trusts=trusts)
            except OSError as error:
                raise _one_file_system(error) from error
        if self._renewed is not None:
            self._renewed.add(ref.digest)
        return outcome

    def discard(self, path: Path) -> None:
        """Give up the partial file at `path`; harmless where it was committed or given up."""
        self.partials.discard(path)

    def reuse(self, refs: Sequence[BlobRef]) -> list[bool]:
        """Pin blobs that the store may have; return for each whether it is known to be good.

        Args:
            refs: a few hundred at most, because gc waits meanwhile.
        """
        with self._lock.shared():
            self._pin(refs)
            return self._blobs.known_good(refs)

    def put(self, data: bytes) -> tuple[BlobRef, CommitOutcome]:
        """Put a small blob into the store, if it lacks it; return it and what became of it."""
        known = BlobRef(Digest.of(data), len(data))  # hashed once more if it is written
        if self._wanted is None and self._renewed is None and self.reuse([known]) == [True]:
            return known, CommitOutcome.REUSED
        path = self.open()
        try:
            with contextlib.closing(BlobWriter(self.fs, path)) as blob:
                blob.write(data)
                ref = blob.finish()
            return ref, self.commit(path, ref)
        finally:
            self.discard(path)

    def publish(
        self, name: ModelName, manifest: Manifest, origin: Origin | None = None
    ) -> Publication:
        """Set `name` to a manifest, durably; the promise of "created" holds from here on.

        Args:
            name: what to call it.
            manifest: whose blobs this writer has pinned.
            origin: what the model came from, if that is to be noted.

        Raises:
            BlobsGoneError: a blob is no longer there; the name is as it was.
            UsageError: the name differs from an existing one in case alone.
        """
        partial = self.partials.path(".manifest")
        data = manifest.to_bytes()
        write_small(self.fs, partial, data)
        digest = Digest.of(data)
        del data  # 30 MB for 100 000 tensors
        partial_origin = self.partials.path(".origin")
        if origin is not None and not self._origins.has(digest, origin):
            self._origins.write(partial_origin, digest, origin)
        self.sync()
        with self._lock.shared():
            if origin is not None:
                # Before the manifest, and under one lock, or gc would find nothing that needs
                # it. A publication that fails leaves a file that gc removes.
                self._origins.put(digest, origin, partial_origin)
            return Publication(digest, self._replace(name, partial, manifest, digest))

    def sync(self) -> None:
        """Make the names of all blobs durable, as their content is already."""
        # One barrier for all renames, those of other processes whose blobs we reuse included.
        self.fs.sync_directory(self._blobs.layout.blobs)

    def copy(
        self,
        source: ModelName | StoredManifest,
        target: ModelName,
        origin: Origin | None = None,
    ) -> StoredManifest | None:
        """Set `target` to a model, or to what history has; return what it stood for before.

        Args:
            source: the model.
            target: its new name.
            origin: what the model came from, if that is to be noted.

        Raises:
            BlobsGoneError: gc or another program has removed blobs of it; nothing was set.
        """
        partial = self.partials.path(".manifest")
        # The lock is held from reading one name to publishing the other: no pins needed.
        with self._lock.shared():
            found = self._catalog.get(source)
            write_small(self.fs, partial, found.data)
            self.sync()
            if origin is not None:
                # Before the manifest, as above.
                self._origins.put(found.digest, origin, self.partials.path(".origin"))
            return self._replace(target, partial, found.parse(), found.digest)

    def close(self) -> None:
        """Remove the folder and everything unfinished in it; closing twice is harmless."""
        if self not in self._open_writers:
            return
        if self._pins is not None:
            self._pins.close()
        # Under the shared lock: gc must not meet a folder half removed.
        with contextlib.suppress(OSError, IngotError), self._lock.shared():
            if not self.partials.close():
                remove_folder(self.fs, self.folder)
        if self._life is not None:
            self.fs.close(self._life)
        self._open_writers.remove(self)

    def _replace(
        self, name: ModelName, partial: Path, manifest: Manifest, digest: Digest
    ) -> StoredManifest | None:
        gone = tuple(ref for ref in dict.fromkeys(manifest.blobs) if not self._blobs.holds(ref))
        if gone:
            raise BlobsGoneError(name, gone)
        self._catalog.check_case(name)
        previous = self._catalog.find(name)
        if previous is not None and previous.digest != digest:
            self._history.keep(name, self._catalog.path(name))
        self._catalog.put(name, partial)
        return previous

    def _pin(self, refs: Sequence[BlobRef]) -> None:
        assert self._pins is not None, "the folder is not made yet"
        self._pins.add(ref.digest for ref in refs)


def _one_file_system(error: OSError) -> Exception:
    if error.errno != errno.EXDEV:
        return error
    return StorageError(
        f"`{error.filename}` and `{error.filename2}` are on different file systems",
        code="E_XDEV",
        hint="A store's blobs/, tmp/ and quarantine/ must be on one file system: mount or link "
        "the whole store instead of parts of it",
    )
