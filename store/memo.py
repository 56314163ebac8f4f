"""What this store has seen before: a cache; deleting it costs time and nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from store.cache_database import CacheDatabase
from store.digest import Digest
from store.status import Status

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS blob (
    digest TEXT PRIMARY KEY,
    inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS secret (one INTEGER PRIMARY KEY CHECK (one = 1), seed INTEGER);
CREATE TABLE IF NOT EXISTS product (
    key BLOB PRIMARY KEY, header BLOB, digest TEXT, size INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS product_header ON product (header);
CREATE TABLE IF NOT EXISTS source (
    path BLOB PRIMARY KEY,
    device INTEGER, inode INTEGER, size INTEGER, changed_ns INTEGER, looked_ns INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS piece (
    path BLOB, looked_ns INTEGER, offset INTEGER, nbytes INTEGER, fingerprint BLOB,
    PRIMARY KEY (path, looked_ns, offset, nbytes)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS measured (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
"""
_VERSION: Final = 2
"""Of the schema: a memo of another one is made anew."""
GRANULARITY_NS: Final = 2 * 10**9
"""Of the coarsest clock of any file system (FAT): nothing tells which clock stamped a file."""

_MEASURES: Final = 1000
"""That wait to be saved together."""
_LARGEST: Final = 2**63 - 1
Pieces = dict[tuple[int, int], bytes]
"""Offset and size of parts of a source file, each with its fingerprint."""


class BlobIdentity(NamedTuple):
    """What tells whether the file of a blob is the one that was seen, times in nanoseconds."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class SourceIdentity(NamedTuple):
    """What tells whether a source file is the one that was read.

    Attributes:
        changed_ns: the later of mtime and ctime: `cp -p` and `touch` set back the one alone.
    """

    device: int
    inode: int
    size: int
    changed_ns: int


class Memo:
    """Which blob files and source files this store has seen, and what it made of them.

    It never decides a content address: a blob is believed only while inode, size, mtime and
    ctime are what they were. Every failure of the database means "not known"; a damaged file
    is made anew. Threads and processes may share one.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the memo at `path`, or one that forgets, in memory, for None."""
        self._mutex = threading.Lock()
        self._database = CacheDatabase(path, _SCHEMA, _VERSION)
        # Blobs whose rows the database does not have yet.
        self._unsaved_blobs: dict[str, BlobIdentity] = {}
        # When this process looked at each source: its notes are of that look alone, since
        # another process may have looked at another file under the same path.
        self._looks: dict[bytes, int] = {}
        # Of a store that there may never be: only with other notes is a database made.
        self._unsaved_measures: list[tuple[bytes, bytes]] = []

    def knows(self, digest: Digest, status: Status) -> bool:
        """Return whether this very file was seen to hold the bytes of `digest`."""
        return self.knows_each([(digest, status)])[0]

    def knows_each(self, seen: Sequence[tuple[Digest, Status]]) -> list[bool]:
        """Return for each of some files whether it was seen to hold the bytes of its digest."""
        query = "SELECT inode, size, mtime_ns, ctime_ns FROM blob WHERE digest = ?"
        with self._mutex:
            names = {digest.hex for digest, _ in seen}
            noted: dict[str, tuple[object, ...] | None] = {
                name: self._unsaved_blobs.get(name) for name in sorted(names)
            }
            asked = [name for name, identity in noted.items() if identity is None]
            found = self._database.each(query, [(name,) for name in asked])
        noted.update(zip(asked, found, strict=True))
        return [noted[digest.hex] == _identity(status) for digest, status in seen]

    def note(self, digest: Digest, status: Status) -> None:
        """Remember that this file holds the bytes of `digest`."""
        with self._mutex:
            identity = self._unsaved_blobs[digest.hex] = _identity(status)
            self._later("REPLACE INTO blob VALUES (?,?,?,?,?)", (digest.hex, *identity))

    def forget(self, digest: Digest) -> None:
        """Drop what is known of a blob."""
        with self._mutex:
            self._save()
            self._database.run("DELETE FROM blob WHERE digest = ?", [(digest.hex,)])

    def seed(self, *, create: bool) -> int | None:
        """Return the secret that seeds the fingerprints of this store, or None without one.

        XXH3 is not a cryptographic hash: only who knows the seed could make two tensors
        that this store takes for one.

        Args:
            create: make one where there is none.
        """
        query = "SELECT seed FROM secret"
        with self._mutex:
            row = self._database.one(query)
            if row is None and create:
                insert = "INSERT OR IGNORE INTO secret VALUES (1, ?)"
                fresh = int.from_bytes(os.urandom(7), "little")
                self._database.run(insert, [(fresh,)], create=True)
                row = self._database.one(query)
        return row[0] if row and type(row[0]) is int and 0 <= row[0] < 1 << 64 else None

    def product(self, key: bytes) -> tuple[Digest, int] | None:
        """Return digest and size of the blob that these fingerprints gave, if known."""
        return self.products([key])[0]

    def products(self, keys: Sequence[bytes]) -> list[tuple[Digest, int] | None]:
        """Return what `product` returns, of each of `keys`."""
        query = "SELECT digest, size FROM product WHERE key = ?"
        with self._mutex:
            rows = self._database.each(query, [(key,) for key in keys])
        return [_product(row) for row in rows]

    def have_products(self, headers: Sequence[bytes]) -> list[bool]:
        """Return for each header, by its SHA-256, whether any blob with it was made."""
        query = "SELECT 1 FROM product WHERE header = ?"
        with self._mutex:
            rows = self._database.each(query, [(header,) for header in headers])
        return [row is not None for row in rows]

    def note_product(self, key: bytes, header: bytes, digest: Digest, size: int) -> None:
        """Remember which blob some fingerprints and a header gave."""
        row = (key, header, digest.hex, size)
        with self._mutex:
            self._later("REPLACE INTO product VALUES (?,?,?,?)", row)

    def pieces(self, path: Path, identity: SourceIdentity) -> Pieces:
        """Return what is known of a source file that still has this identity; none otherwise.

        A file that was written within the clock's granularity of the last look may have been
        written again without a trace, so it is not believed (as git's "racy" entries).

        Args:
            path: of the source file.
            identity: that it has now.
        """
        key = os.fsencode(path)
        query = "SELECT offset, nbytes, fingerprint FROM piece WHERE path = ? AND looked_ns = ?"
        with self._mutex:
            looked = self._look(key, identity)
            if looked is None:
                return {}
            rows = self._database.run(query, [(key, looked)])
            # One flipped bit makes a text of a blob.
            return {(at, size): found for at, size, found in rows if type(found) is bytes}

    def has_pieces(self, path: Path, identity: SourceIdentity) -> bool:
        """Return whether `pieces` would return any, without reading up to 100 000 of them."""
        key = os.fsencode(path)
        query = "SELECT 1 FROM piece WHERE path = ? AND looked_ns = ? LIMIT 1"
        with self._mutex:
            looked = self._look(key, identity)
            return looked is not None and self._database.one(query, (key, looked)) is not None

    def look_at(self, path: Path, identity: SourceIdentity, now_ns: int) -> None:
        """Begin to take notes of a source file as it is now; forget those of what it was."""
        key = (os.fsencode(path),)
        with self._mutex:
            if (looked := self._look(key[0], identity)) is not None:
                self._looks[key[0]] = looked  # it is as it was: go on
                return
            self._looks[key[0]] = now_ns
            self._database.run("DELETE FROM piece WHERE path = ?", [key], create=True)
            self._later("REPLACE INTO source VALUES (?,?,?,?,?,?)", (*key, *identity, now_ns))

    def note_piece(self, path: Path, offset: int, nbytes: int, fingerprint: bytes) -> None:
        """Remember the fingerprint of a part of a source file."""
        key = os.fsencode(path)
        with self._mutex:
            if (looked := self._looks.get(key)) is not None:
                row = (key, looked, offset, nbytes, fingerprint)
                self._later("REPLACE INTO piece VALUES (?,?,?,?,?)", row)

    def measured(self, key: bytes) -> bytes | None:
        """Return what was measured under a key that holds all that it depends on, if known."""
        with self._mutex:
            row = self._database.one("SELECT value FROM measured WHERE key = ?", (key,))
        return row[0] if row and type(row[0]) is bytes else None

    def note_measured(self, key: bytes, value: bytes) -> None:
        """Remember what was measured under a key."""
        with self._mutex:
            self._unsaved_measures.append((key, value))
            if len(self._unsaved_measures) >= _MEASURES:
                self._save()

    def save(self) -> None:
        """Write what is pending."""
        with self._mutex:
            self._save()

    def close(self) -> None:
        """Write what is pending; the memo may be used again afterwards."""
        with self._mutex:
            self._save()
            self._database.disconnect()

    def _look(self, key: bytes, identity: SourceIdentity) -> int | None:
        """Return when a source file was last looked at, if it is as it was then."""
        query = "SELECT device, inode, size, changed_ns, looked_ns FROM source WHERE path = ?"
        row = self._database.one(query, (key,))
        if row is None or row[:4] != identity or type(row[4]) is not int:
            return None
        return row[4] if identity.changed_ns < row[4] - GRANULARITY_NS else None

    def _later(self, statement: str, row: tuple[object, ...]) -> None:
        if self._database.later(statement, row):
            self._unsaved_blobs.clear()

    def _save(self) -> None:
        self._database.save()
        if self._unsaved_measures and self._database.is_there:
            self._database.run("REPLACE INTO measured VALUES (?,?)", self._unsaved_measures)
            self._unsaved_measures.clear()
        self._unsaved_blobs.clear()


def _product(row: tuple[Any, ...] | None) -> tuple[Digest, int] | None:
    # SQLite notices a torn page, but not a flipped bit in a value.
    found = Digest.from_file_name(f"sha256-{row[0]}") if row else None
    return (found, row[1]) if row and found and type(row[1]) is int else None


def _identity(status: Status) -> BlobIdentity:
    # SQLite's integers have 63 bits and a sign; some file systems use 64 for inodes.
    inode = status.inode & _LARGEST
    return BlobIdentity(inode, status.size, status.mtime_ns, status.ctime_ns)
