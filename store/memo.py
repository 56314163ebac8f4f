"""What this store has seen before: a cache that may be deleted at any time."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from store.digest import Digest
from store.fs import Status

if TYPE_CHECKING:
    import sqlite3

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS blob (
    digest TEXT PRIMARY KEY,
    inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS origin (manifest TEXT PRIMARY KEY, source TEXT) WITHOUT ROWID;
"""
_BUSY_SECONDS: Final = 2.0
_SAVE_EVERY: Final = 256

_Identity = tuple[int, int, int, int]


class Memo:
    """Which blob files this store has written or hashed, and where models came from.

    It never decides a content address: a blob is believed only while inode, size, mtime and
    ctime are what they were. Every failure of the database means "not known"; a damaged file
    is made anew. Threads and processes may share one.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the memo at `path`, or one that forgets, in memory, for None."""
        self._path = path
        self._mutex = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        # One transaction for each blob would cost more than the blob, and a long one would
        # lock other processes out: notes wait here. What a crash forgets is hashed again.
        self._unsaved: dict[str, _Identity] = {}

    def knows(self, digest: Digest, status: Status) -> bool:
        """Whether this very file was seen to hold the bytes of `digest`."""
        with self._mutex:
            noted = self._unsaved.get(digest.hex)
            if noted is None:
                query = "SELECT inode, size, mtime_ns, ctime_ns FROM blob WHERE digest = ?"
                rows = self._run(query, [(digest.hex,)])
                noted = rows[0] if rows else None
        return noted == _identity(status)

    def note(self, digest: Digest, status: Status) -> None:
        """Remember that this file holds the bytes of `digest`."""
        with self._mutex:
            self._unsaved[digest.hex] = _identity(status)
            if len(self._unsaved) >= _SAVE_EVERY:
                self._save()

    def forget(self, digest: Digest) -> None:
        """Drop what is known of a blob."""
        with self._mutex:
            self._unsaved.pop(digest.hex, None)
            self._run("DELETE FROM blob WHERE digest = ?", [(digest.hex,)])

    def clear(self) -> None:
        """Forget every blob, so that none is believed unread."""
        with self._mutex:
            self._unsaved.clear()
            self._run("DELETE FROM blob", [()])

    def note_origin(self, manifest: Digest, source: Path) -> None:
        """Remember which local directory a model was made from."""
        with self._mutex:
            # As bytes, where sqlite would refuse a text: a path need not be Unicode.
            row = (manifest.hex, os.fsencode(source))
            self._run("REPLACE INTO origin VALUES (?,?)", [row], create=True)

    def origin(self, manifest: Digest) -> Path | None:
        """Where a model was made from on this machine, if that is known."""
        with self._mutex:
            rows = self._run("SELECT source FROM origin WHERE manifest = ?", [(manifest.hex,)])
        return Path(os.fsdecode(rows[0][0])) if rows else None

    def close(self) -> None:
        """Write what is pending; the memo may be used again afterwards."""
        with self._mutex:
            self._save()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _save(self) -> None:
        rows = [(digest, *identity) for digest, identity in self._unsaved.items()]
        self._unsaved.clear()
        if rows:
            self._run("REPLACE INTO blob VALUES (?,?,?,?,?)", rows, create=True)

    def _run(
        self, statement: str, rows: Sequence[tuple[object, ...]], *, create: bool = False
    ) -> list[Any]:
        if not (create or self._connection or (self._path and self._path.exists())):
            return []  # whoever only asks writes nothing, least of all into another's store
        import sqlite3  # noqa: PLC0415 - 8 ms that only commands with a memo should pay

        for _ in range(2):
            try:
                database = self._open()
                with database:
                    if len(rows) == 1:
                        return database.execute(statement, rows[0]).fetchall()
                    database.executemany(statement, rows)
                    return []
            except sqlite3.OperationalError:
                break  # locked for long, read-only, a full disk: not known
            except sqlite3.DatabaseError:
                self._start_over()
        return []

    def _open(self) -> sqlite3.Connection:
        import sqlite3  # noqa: PLC0415 - see above

        if self._connection is None:
            self._connection = sqlite3.connect(
                self._path or ":memory:", timeout=_BUSY_SECONDS, check_same_thread=False
            )
            # A cache needs no durability: what a power cut damages is made anew.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.executescript(_SCHEMA)
        return self._connection

    def _start_over(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._path is not None:
            for suffix in ("", "-journal"):
                with contextlib.suppress(OSError):
                    Path(f"{self._path}{suffix}").unlink()


def _identity(status: Status) -> _Identity:
    return (status.inode, status.size, status.mtime_ns, status.ctime_ns)
