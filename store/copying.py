"""A model from one store into another: each blob shared, linked or copied, and hashed."""

from __future__ import annotations

import contextlib
import errno
from collections import Counter
from collections.abc import Callable
from enum import StrEnum, unique
from pathlib import Path
from typing import Final, NamedTuple

from store.arrival import reused, set_name
from store.blob_writer import BlobWriter
from store.blobs import BlobRef
from store.catalog import StoredManifest
from store.digest import Digest
from store.errors import IntegrityError, StorageError
from store.fs import File
from store.names import ModelName
from store.parallel import Stop, each
from store.store import Store
from store.writer import Writer

_CHUNK: Final = 1 << 20


@unique
class How(StrEnum):
    """How a blob came into a store."""

    PRESENT = "present"
    SHARED = "shared"
    """Its bytes are on the disk once, until one of the files is written to (reflink)."""
    LINKED = "linked"
    """It is the same file (hard link)."""
    COPIED = "copied"


class Copied(NamedTuple):
    """What copying a model did.

    Attributes:
        digest: of the manifest.
        replaced: what the name stood for before, or None.
        blobs: how many came which way.
        nbytes: of those that were not there.
    """

    digest: Digest
    replaced: Digest | None
    blobs: dict[How, int]
    nbytes: int


class Told(NamedTuple):
    """Who hears how far a copy is, from several threads.

    Attributes:
        moved: of some bytes of a blob that are copied, or hashed where nothing is to be copied.
        came: of a blob that is there now, and how it came.
    """

    moved: Callable[[BlobRef, int], None] = lambda _, __: None
    came: Callable[[BlobRef, How], None] = lambda _, __: None


_UNHEARD: Final = Told()

_Piece = Callable[[int], None]


def _counting(ref: BlobRef, stop: Stop, told: Told) -> _Piece:
    """Return what is called with each piece of a blob, and raises when all is given up."""

    def moved(nbytes: int) -> None:
        stop.check()
        told.moved(ref, nbytes)

    return moved


class Copying(NamedTuple):
    """Copies models from one store into another.

    Attributes:
        source: that has them.
        target: that gets them.
        links: whether blobs become hard links: whoever writes to one file writes to both.
        threads: that copy.
    """

    source: Store
    target: Store
    links: bool = False
    threads: int = 1

    def copy(self, stored: StoredManifest, name: ModelName, told: Told = _UNHEARD) -> Copied:
        """Give `name` in the target to a model of the source.

        Every blob is hashed where it arrives, before it gets its name.

        Raises:
            IntegrityError: a blob of the source is missing or damaged; the name is as it was.
            StorageError: a hard link cannot be made.
        """
        self.target.catalog.check_settable(name)
        refs = list(dict.fromkeys(stored.parse().blobs))
        ways: Counter[How] = Counter()
        stop, missing = Stop(), []
        with self.target.writing(name) as writer:
            for ref, is_there in reused(writer, self.target, refs):
                if is_there:
                    ways[How.PRESENT] += 1
                    told.came(ref, How.PRESENT)
                else:
                    missing.append(ref)

            def bring(ref: BlobRef) -> How:
                how = self._bring(writer, ref, _counting(ref, stop, told))
                told.came(ref, how)
                return how

            ways.update(each(bring, missing, self.threads, stop))
            previous = set_name(writer, name, stored.data)
        replaced = previous.digest if previous is not None else None
        return Copied(stored.digest, replaced, dict(ways), sum(ref.size for ref in missing))

    def _bring(self, writer: Writer, ref: BlobRef, moved: _Piece) -> How:
        with self.source.blobs.open(ref.digest) as source:
            path = self._linked(writer, ref) if self.links else writer.open()
            try:
                how, made = self._filled(writer, path, source, moved)
                if made != ref.digest:
                    raise IntegrityError(
                        f"blob {ref.digest} of `{self.source.layout.root}` is damaged: its "
                        f"hash is {made}",
                        code="E_BLOB_DIGEST",
                    )
                writer.commit(path, ref)
            finally:
                writer.discard(path)
        return how

    def _filled(
        self, writer: Writer, path: Path, source: File, moved: _Piece
    ) -> tuple[How, Digest]:
        """Give a partial file the bytes of a blob; return how, and the hash of what it has."""
        if self.links:
            return How.LINKED, self.target.blobs.digest_of(source, moved)
        with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
            target = writer.fs.reopen(path)
            try:
                if writer.fs.clone(source, target):
                    return How.SHARED, self.target.blobs.digest_of(target, moved)
            finally:
                writer.fs.close(target)
            while data := self.source.fs.read(source, _CHUNK, blob.size):
                blob.write(data)
                moved(len(data))
            return How.COPIED, blob.finish().digest

    def _linked(self, writer: Writer, ref: BlobRef) -> Path:
        place = self.source.blobs.path(ref.digest)
        try:
            return writer.partials.link(place)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK}:
                raise
            raise StorageError(
                f"`{place}` cannot have a second name in `{self.target.layout.root}`: "
                f"{error.strerror}",
                code="E_LINK",
            ) from error
