"""A SQLite file that may be lost at any time: every failure of it means "not known"."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3

_BUSY_SECONDS: Final = 2.0
_SAVE_EVERY: Final = 256
_ASK_AT_ONCE: Final = 256
_SAVE_SECONDS: Final = 1.0
"""How much work a kill may cost, at most: what is not saved is made again."""


class CacheDatabase:
    """A database whose loss costs nothing but time; a damaged file is made anew.

    Processes may share the file. Threads may share the object if one lock is held around
    each call.
    """

    def __init__(self, path: Path | None, schema: str, version: int) -> None:
        """Open the database at `path`, or one in memory for None; nothing is touched yet.

        Args:
            path: of the file.
            schema: statements that make what is not there.
            version: of the schema; a file of another one is made anew.
        """
        self._path, self._schema, self._version = path, schema, version
        self._connection: sqlite3.Connection | None = None
        # One transaction for each row would cost more than what it is about, and a long one
        # would lock other processes out: rows wait here. What a crash loses is made again.
        self._waiting: dict[str, list[tuple[object, ...]]] = {}
        self._saved = time.monotonic()

    @property
    def is_there(self) -> bool:
        """Whether there is a database that need not be made first."""
        return bool(self._connection or (self._path and self._path.exists()))

    def one(self, query: str, row: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        """Return the first row that `query` finds, or None."""
        rows = self.run(query, [row])
        return rows[0] if rows else None

    def each(
        self, query: str, rows: Sequence[tuple[object, ...]]
    ) -> list[tuple[Any, ...] | None]:
        """Return the first row that `query` finds for each of `rows`, or None.

        A few hundred are asked under one lock of the file: a lock for each question took 18
        system calls, and one lock for all would keep whoever writes waiting.
        """
        found: list[tuple[Any, ...] | None] = []
        for at in range(0, len(rows), _ASK_AT_ONCE):
            some = rows[at : at + _ASK_AT_ONCE]
            found += self._try(partial(_first, query, some)) or [None] * len(some)
        return found

    def run(
        self, statement: str, rows: Sequence[tuple[object, ...]], *, create: bool = False
    ) -> list[Any]:
        """Run a statement for each of `rows` in one transaction.

        Args:
            statement: with a placeholder for each value of a row.
            rows: values.
            create: make the file if there is none.

        Returns:
            What a query with one row found; nothing when the database fails.
        """

        def answer(database: sqlite3.Connection) -> list[Any]:
            if len(rows) == 1:
                return database.execute(statement, rows[0]).fetchall()
            database.executemany(statement, rows)
            return []

        return self._try(answer, create=create)

    def later(self, statement: str, row: tuple[object, ...]) -> bool:
        """Run a statement soon; return whether everything that waited is saved now."""
        rows = self._waiting.setdefault(statement, [])
        rows.append(row)
        is_due = len(rows) >= _SAVE_EVERY or time.monotonic() - self._saved > _SAVE_SECONDS
        if is_due:
            self.save()
        return is_due

    def save(self) -> None:
        """Run what waits."""
        for statement, rows in self._waiting.items():
            self.run(statement, rows, create=True)
        self._waiting.clear()
        self._saved = time.monotonic()

    def disconnect(self) -> None:
        """Close the file; the next call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(
        self, answer: Callable[[sqlite3.Connection], list[Any]], *, create: bool = False
    ) -> list[Any]:
        """Return an answer in a transaction of its own, or nothing when the database fails."""
        if not (create or self.is_there):
            return []  # whoever only asks writes nothing, least of all into another's store
        import sqlite3  # noqa: PLC0415 - 8 ms that only commands with a memo should pay

        # Read again before it is made anew: SQLite calls a read that failed damage, too.
        for mend in (self.disconnect, self._start_over, self.disconnect):
            try:
                with self._open() as database:
                    return answer(database)
            except (sqlite3.OperationalError, OverflowError):
                break  # locked for long, read-only, a full disk, 64 bits: not known
            except (sqlite3.DatabaseError, UnicodeDecodeError, MemoryError):
                # A damaged statement is quoted in the message, whatever its bytes are; a
                # damaged length is more than any memory has.
                mend()
        return []

    def _open(self) -> sqlite3.Connection:
        import sqlite3  # noqa: PLC0415 - see above

        if self._connection is None:
            if self._path is not None and self._path.is_symlink():
                self._path.unlink()  # else we would write where it leads
            self._connection = sqlite3.connect(
                self._path or ":memory:", timeout=_BUSY_SECONDS, check_same_thread=False
            )
            # A cache needs no durability: what a power cut damages is made anew.
            self._connection.execute("PRAGMA synchronous = OFF")
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version not in {0, self._version}:
                raise sqlite3.DatabaseError("another version of the schema")
            self._connection.executescript(self._schema)
            self._connection.execute(f"PRAGMA user_version = {self._version}")
        return self._connection

    def _start_over(self) -> None:
        self.disconnect()
        if self._path is not None:
            for suffix in ("", "-journal"):
                with contextlib.suppress(OSError):
                    Path(f"{self._path}{suffix}").unlink()


def _first(
    query: str, rows: Sequence[tuple[object, ...]], database: sqlite3.Connection
) -> list[tuple[Any, ...] | None]:
    database.execute("BEGIN")
    return [database.execute(query, row).fetchone() for row in rows]
