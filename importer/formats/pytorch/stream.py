"""Read a file from one offset on, in pieces, with every length checked first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from importer.formats.pytorch.problems import malformed

ReadRange = Callable[[int, int], bytes]
"""Gives the bytes of a file from the first offset to before the second."""

_FIRST: Final = 64 << 10
_WINDOW: Final = 1 << 20


class Stream:
    """The bytes of a file between two offsets, read forward.

    Attributes:
        where: what to call the file in a message.
    """

    def __init__(self, read: ReadRange, start: int, end: int, where: str) -> None:
        """Start at an offset, without reading anything."""
        self.where: Final = where
        self._read: Final = read
        self._end: Final = end
        self._begin = start
        self._data = b""
        self._at = 0

    @property
    def position(self) -> int:
        """The offset in the file of the next byte."""
        return self._begin + self._at

    def take(self, count: int) -> bytes:
        """Return the next bytes.

        Raises:
            InputError: there are not so many.
        """
        stop = self._at + count
        if stop > len(self._data):
            self._fill(count)
            stop = self._at + count
        taken = self._data[self._at : stop]
        self._at = stop
        return taken

    def line(self, limit: int) -> str:
        """Return the next line of ASCII letters, without its end.

        Raises:
            InputError: it is longer than `limit`, or not ASCII.
        """
        end = self._data.find(b"\n", self._at, self._at + limit + 1)
        found = self.take(end - self._at) if end >= 0 else self._slow_line(limit)
        if end >= 0:
            self.take(1)
        if not found.isascii():
            malformed(self.where, f"a name in the pickle is not {limit} ASCII letters")
        return found.decode("ascii")

    def _slow_line(self, limit: int) -> bytes:
        """Return the next line where it may leave the window, byte by byte."""
        found = bytearray()
        while (byte := self.take(1)) != b"\n":
            if len(found) >= limit:
                malformed(self.where, f"a name in the pickle is not {limit} ASCII letters")
            found += byte
        return bytes(found)

    def _fill(self, count: int) -> None:
        start = self.position
        if count > self._end - start:
            malformed(
                self.where,
                f"it ends in the middle: {count} bytes expected at byte {start}, "
                f"{self._end - start} are left",
                "E_PT_TRUNCATED",
            )
        window = _WINDOW if self._data else _FIRST
        self._data = self._read(start, min(start + max(count, window), self._end))
        self._begin, self._at = start, 0
