"""Read a file from one offset on, in pieces, with every length checked first."""

from __future__ import annotations

from typing import NoReturn

from importer.formats.pytorch.problems import malformed
from importer.formats.window import Window


class Stream(Window):
    """The bytes of a pickle in a file."""

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

    def too_short(self, count: int) -> NoReturn:
        """Raise InputError for a pickle that ends in the middle."""
        malformed(
            self.where,
            f"it ends in the middle: {count} bytes expected at byte {self.position}, "
            f"{self.left} are left",
            "E_PT_TRUNCATED",
        )
