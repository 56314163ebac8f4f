"""Blobs: immutable files named by the digest of their bytes."""

from __future__ import annotations

import contextlib
import errno
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum, unique
from pathlib import Path
from typing import Final, NamedTuple

from store.digest import Digest
from store.errors import IntegrityError
from store.fs import File, FileSystem
from store.memo import Memo
from store.pages import page_buffer
from store.paths import Layout
from store.status import Kind, Status

_NO_FILE: Final = frozenset({errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.EISDIR})
_HASH_CHUNK: Final = 512 << 10
"""Measured on 2 GB with two threads: 256 KiB took .93 s instead of .82, and 1 MiB as long as
this, but at a peak of 26.9 MiB instead of 25.7."""


def _silent(_: int) -> None: ...


class BlobRef(NamedTuple):
    """The digest and the size in bytes of a blob."""

    digest: Digest
    size: int


@unique
class CommitOutcome(StrEnum):
    """What became of a finished blob."""

    NEW = "new"
    REUSED = "reused"
    """The store had it, and knew it to be good."""
    RENEWED = "renewed"
    """The store had a file of that name and size that it did not know to be good; the fresh
    copy, which costs nothing more, took its place."""
    REPAIRED = "repaired"
    """The store had a bad file under its name, which is in quarantine now."""
    REFUSED = "refused"
    """It is not one of the blobs that the writer accepts, and is not in the store."""


class BlobStore:
    """The files `blobs/sha256-<hex>` of a store."""

    def __init__(self, fs: FileSystem, layout: Layout, memo: Memo) -> None:
        self.fs: Final = fs
        self.layout: Final = layout
        self.memo: Final = memo
        self._own = threading.local()

    def path(self, digest: Digest) -> Path:
        """Return where the blob belongs, whether it is there or not."""
        return self.layout.blobs / digest.file_name

    def status(self, digest: Digest) -> Status | None:
        """Look at the file of the blob; return None where there is none."""
        return self.fs.status(self.path(digest))

    def holds(self, ref: BlobRef) -> bool:
        """Return whether a regular file of the right name and size is there."""
        seen = self.status(ref.digest)
        return seen is not None and seen.kind is Kind.FILE and seen.size == ref.size

    def known_good(self, refs: Sequence[BlobRef]) -> list[bool]:
        """Return for each blob whether the memo knows its file to hold its bytes."""
        found = [self.status(ref.digest) for ref in refs]
        there = {
            ref: seen
            for ref, seen in zip(refs, found, strict=True)
            if seen is not None and seen.kind is Kind.FILE and seen.size == ref.size
        }
        good = self.memo.knows_each([(ref.digest, seen) for ref, seen in there.items()])
        known = dict(zip(there, good, strict=True))
        return [known.get(ref, False) for ref in refs]

    def digests(self) -> Iterator[tuple[str, Digest | None, Kind]]:
        """List `blobs/`: each file name, the digest where the name is one, and the kind."""
        for name, kind in self.fs.entries(self.layout.blobs):
            yield name, Digest.from_file_name(name), kind

    @contextlib.contextmanager
    def open(self, digest: Digest) -> Iterator[File]:
        """Open a blob for reading.

        Raises:
            IntegrityError: it is not there.
        """
        try:
            file = self.fs.open(self.path(digest))
        except FileNotFoundError as error:
            raise missing(digest) from error
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            message = f"blob {digest} is not a regular file"
            raise IntegrityError(message, code="E_BLOB_KIND") from error
        try:
            yield file
        finally:
            self.fs.close(file)

    def read(self, ref: BlobRef, limit: int) -> bytes:
        """Read a small blob whole.

        Raises:
            IntegrityError: it is not there, is not of its size, or is larger than `limit`.
        """
        if ref.size > limit:
            message = f"blob {ref.digest} has {ref.size} bytes, expected at most {limit}"
            raise IntegrityError(message, code="E_LIMIT")
        with self.open(ref.digest) as file:
            data = self.fs.read(file, ref.size + 1, 0)
        if len(data) != ref.size:
            message = (
                f"blob {ref.digest} does not have the {ref.size} bytes that it should have"
            )
            raise IntegrityError(message, code="E_BLOB_SIZE")
        return data

    def install(
        self, partial: Path, ref: BlobRef, *, is_bad: bool = False, trusts: bool = True
    ) -> CommitOutcome:
        """Give a finished, synced partial file its final name.

        The caller holds the shared lock and has pinned the digest. A file that is there
        already is reused when the memo has seen it good, and replaced otherwise: the fresh
        copy costs nothing more. There is never a moment without the blob.

        Args:
            is_bad: what is there was found bad, unless the memo has seen it good since.
            trusts: believe what the memo has seen.
        """
        target = self.path(ref.digest)
        seen = self.fs.status(target)
        outcome = CommitOutcome.NEW
        if seen is not None:
            outcome = CommitOutcome.RENEWED
            is_other = seen.kind is not Kind.FILE or seen.size != ref.size
            if not is_other and trusts and self.memo.knows(ref.digest, seen):
                self.fs.unlink(partial)
                return CommitOutcome.REUSED
            if is_other or is_bad:
                self._quarantine(target, seen)
                outcome = CommitOutcome.REPAIRED
        self.fs.rename(partial, target)
        self._note(ref.digest)
        return outcome

    def vouch(self, ref: BlobRef, progress: Callable[[int], None] = _silent) -> bool:
        """Hash a blob that another program may have put here; return whether it is good.

        A good one is made durable, and known to be good from now on. The caller has pinned it.
        """
        if not self.holds(ref):
            return False
        try:
            with self.open(ref.digest) as file:
                seen = self.fs.status_of(file)
                if self.digest_of(file, progress) != ref.digest:
                    return False
                self.fs.sync(file)
        except IntegrityError:
            return False  # gone, or no file any more, since we looked
        if self.fs.is_durable:
            self.memo.note(ref.digest, seen)
        return True

    def set_aside(self, digest: Digest) -> None:
        """Move what is under a digest's name into quarantine, whatever it is.

        The caller holds the exclusive lock: a writer might put a good copy there meanwhile.
        """
        bad = self.path(digest)
        self.fs.rename(bad, self._place_for(bad))

    def digest_of(self, file: File, progress: Callable[[int], None] = _silent) -> Digest:
        """Hash an open file from its beginning; call `progress` with the size of each chunk."""
        import hashlib  # noqa: PLC0415 - only what hashes much needs it: store/sha256.py

        sha256 = hashlib.sha256()
        buffer: memoryview | None = getattr(self._own, "buffer", None)
        if buffer is None:
            buffer = self._own.buffer = page_buffer(_HASH_CHUNK)
        offset = 0
        while count := self.fs.read_into(file, buffer, offset):
            sha256.update(buffer[:count])
            offset += count
            progress(count)
        return Digest(sha256.hexdigest())

    def _note(self, digest: Digest) -> None:
        # What was not synced nobody may believe: a later import would call it durable.
        if not self.fs.is_durable:
            return
        # After the rename, because renaming changes the ctime.
        if (installed := self.status(digest)) is not None:
            self.memo.note(digest, installed)

    def _quarantine(self, bad: Path, seen: Status) -> None:
        kept = self._place_for(bad)
        if seen.kind is Kind.DIRECTORY:
            self.fs.rename(bad, kept)  # nothing can be renamed over a directory
        else:
            # Better repaired than kept: some file systems have no hard links (exFAT).
            with contextlib.suppress(OSError):
                self.fs.link(bad, kept)

    def _place_for(self, bad: Path) -> Path:
        places = (self.layout.quarantine / f"{bad.name}.{n}" for n in itertools.count(1))
        return next(place for place in places if self.fs.status(place) is None)


def missing(digest: Digest) -> IntegrityError:
    """Return the error that says that a blob is not there."""
    return IntegrityError(f"blob {digest} is missing", code="E_BLOB_MISSING")
