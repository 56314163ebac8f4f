"""Mark: find what no manifest and no living writer names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from store.digest import Digest
from store.errors import IngotError, IntegrityError
from store.fs import FileSystem
from store.history import Former
from store.status import Kind
from store.store import Store
from store.text import printable
from store.writer_folder import LOCK, PINS, PURPOSE, WriterId


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """A blob that nothing names.

    Attributes:
        size: bytes.
    """

    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A writer's folder whose process is gone.

    Attributes:
        folder: its name in `tmp/`.
        purpose: what it was doing, such as the name of a model.
        nbytes: of its partial files.
        blobs: how many finished blobs it had pinned.
        pinned_bytes: of those that nothing names and that will go.
    """

    folder: str
    purpose: str
    nbytes: int
    blobs: int
    pinned_bytes: int


@dataclass(frozen=True, slots=True)
class GcPlan:
    """What gc would remove.

    Attributes:
        blobs: that no manifest and no living writer names.
        unfinished: folders of dead writers.
        quarantined: names in `quarantine/` with their bytes.
        kept: writers that live, or may live on another host.
        leftovers: other names in `tmp/`.
        origins: where models were made from that no name is left of: digests of manifests.
        host: this one.
        former: what names stood for before, which nothing brings back afterwards.
    """

    blobs: tuple[Unreferenced, ...]
    unfinished: tuple[Unfinished, ...]
    quarantined: tuple[tuple[str, int], ...]
    kept: tuple[WriterId, ...]
    leftovers: tuple[str, ...]
    origins: tuple[Digest, ...] = ()
    host: str = ""
    former: tuple[Former, ...] = ()

    @property
    def nbytes(self) -> int:
        """Number of bytes that are freed."""
        return (
            sum(blob.size for blob in self.blobs)
            + sum(writer.nbytes for writer in self.unfinished)
            + sum(size for _, size in self.quarantined)
        )

    @property
    def foreign(self) -> tuple[WriterId, ...]:
        """Writers of other hosts; whether they live cannot be known here."""
        return tuple(writer for writer in self.kept if writer.host != self.host)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        gone = (self.blobs, self.unfinished, self.quarantined, self.leftovers)
        return not any((*gone, self.origins, self.former))


EMPTY: Final = GcPlan((), (), (), (), ())
"""Nothing to do."""


@dataclass(frozen=True, slots=True)
class Marking:
    """Reads every root of a store; the caller holds the exclusive lock, where there is one.

    Attributes:
        forget: hosts whose writers are known to be dead.
    """

    store: Store
    forget: frozenset[str]

    def run(self, own: Path | None) -> GcPlan:
        """Read every root and return what nothing needs.

        Args:
            own: folder of the writer that gc itself is, or None.

        Raises:
            IntegrityError: a manifest cannot be read.
        """
        fs, layout = self.store.fs, self.store.layout
        named, manifests = self._named()
        alive: list[WriterId] = []
        dead: list[tuple[str, set[Digest]]] = []
        leftovers: list[str] = []
        for folder, kind in _entries(fs, layout.tmp):
            if own is not None and folder == own.name:
                continue
            identity = WriterId.parse(folder)
            if kind is not Kind.DIRECTORY or identity is None:
                leftovers.append(folder)
            elif self._is_alive(identity):
                alive.append(identity)
                named |= self._pins(folder)
            else:
                dead.append((folder, self._pins(folder)))
        unreferenced = self._unnamed(named)
        sizes = {blob.digest: blob.size for blob in unreferenced}
        return GcPlan(
            unreferenced,
            tuple(self._unfinished(folder, pins, sizes) for folder, pins in dead),
            tuple(self._quarantined()),
            tuple(alive),
            tuple(leftovers),
            tuple(self._unneeded_origins(manifests)),
            fs.machine()[0],
            tuple(self.store.history.listed()),
        )

    def _named(self) -> tuple[set[Digest], set[Digest]]:
        """Return the digests of all blobs that manifests name, and those of the manifests."""
        named: set[Digest] = set()
        manifests: set[Digest] = set()
        for entry in self.store.catalog.entries():
            shown = printable(str(entry.path.relative_to(self.store.layout.root)))
            if entry.name is None:
                _refuse(f"`{shown}` is not a manifest: {entry.why}", hint=_STRAY)
            try:
                stored = self.store.catalog.get(entry.name)
                manifest = stored.parse()
            except IngotError as error:
                _refuse(f"`{shown}` cannot be read: {error}")
            if not manifest.is_supported:
                _refuse(f"`{shown}` has an unknown schema or media type")
            named.update(ref.digest for ref in manifest.blobs)
            manifests.add(stored.digest)
        return named, manifests

    def _is_alive(self, identity: WriterId) -> bool:
        host, boot = self.store.fs.machine()
        if identity.host != host:
            return identity.host not in self.forget
        if identity.boot != boot:
            return False
        lock = self.store.fs.try_lock(
            self.store.layout.tmp / str(identity) / LOCK, exclusive=True
        )
        if lock is None:
            return True
        self.store.fs.close(lock)
        return False

    def _pins(self, folder: str) -> set[Digest]:
        # The last line of a writer that was killed may be torn.
        text = self._read(self.store.layout.tmp / folder / PINS)
        names = (pin.replace(":", "-", 1) for pin in text.split())
        return {digest for name in names if (digest := Digest.from_file_name(name))}

    def _unnamed(self, named: set[Digest]) -> tuple[Unreferenced, ...]:
        unreferenced: list[Unreferenced] = []
        if self.store.fs.status(self.store.layout.blobs) is None:
            return ()
        for _, digest, _ in self.store.blobs.digests():
            if digest is not None and digest not in named:
                seen = self.store.blobs.status(digest)
                unreferenced.append(Unreferenced(digest, seen.size if seen else 0))
        return tuple(unreferenced)

    def _unfinished(
        self, folder: str, pins: set[Digest], unreferenced: dict[Digest, int]
    ) -> Unfinished:
        path = self.store.layout.tmp / folder
        nbytes = sum(size for _, size in _sizes(self.store.fs, path))
        purpose = printable(self._read(path / PURPOSE))
        going = sum(unreferenced.get(pin, 0) for pin in pins)
        return Unfinished(folder, purpose, nbytes, len(pins), going)

    def _quarantined(self) -> Iterable[tuple[str, int]]:
        return _sizes(self.store.fs, self.store.layout.quarantine)

    def _unneeded_origins(self, manifests: set[Digest]) -> Iterator[Digest]:
        # Names that are not digests are somebody else's, as in blobs/.
        for _, digest in self.store.origins.digests():
            if digest is not None and digest not in manifests:
                yield digest

    def _read(self, path: Path) -> str:
        # Pins that are there and cannot be read must stop gc: their blobs would go.
        try:
            file = self.store.fs.open(path)
        except FileNotFoundError:
            return ""
        try:
            size = self.store.fs.status_of(file).size
            return self.store.fs.read(file, size, 0).decode("utf-8", "replace")
        finally:
            self.store.fs.close(file)


def _entries(fs: FileSystem, directory: Path) -> list[tuple[str, Kind]]:
    return [] if fs.status(directory) is None else fs.entries(directory)


def _sizes(fs: FileSystem, directory: Path) -> list[tuple[str, int]]:
    found = []
    for name, _ in _entries(fs, directory):
        seen = fs.status(directory / name)
        found.append((name, seen.size if seen and seen.kind is Kind.FILE else 0))
    return found


_STRAY: Final = "gc must know every root: move what is not a manifest out of manifests/"


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise IntegrityError(f"{message}; nothing was removed", code="E_GC_REFUSED", hint=hint)
