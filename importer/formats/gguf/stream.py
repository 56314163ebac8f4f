"""Read a file forward in windows, numbers in its byte order, every length checked first."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NoReturn

from importer.formats.gguf.problems import truncated
from importer.formats.window import FIRST, LARGEST, ReadRange, Window

_LENGTH_BYTES: Final = 8


class Stream(Window):
    """The bytes of a file from an offset on, of which a window is in memory.

    Attributes:
        order: `<` where numbers are little-endian, `>` where they are big-endian.
    """

    def __init__(
        self, read: ReadRange, size: int, where: str, start: int = 0, order: str = "<"
    ) -> None:
        """Start at an offset, without reading anything.

        Args:
            read: gives bytes of the file.
            size: of the whole file.
            where: what to call it.
            start: offset of the first byte.
            order: of the bytes of a number.
        """
        super().__init__(read, start, size, where)
        self.order = order

    def number(self, code: str) -> int:
        """Return the next number, by its code in `struct`: `I` for u32, `Q` for u64."""
        form = self.order + code
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def skip(self, count: int) -> None:
        """Pass over bytes without reading those that are not in memory.

        Raises:
            InputError: there are not so many.
        """
        self._check(count)
        self._at += count
        if self._at > len(self._data):
            self._begin, self._data, self._at = self.position, b"", 0
            if count > LARGEST:
                self._length = FIRST

    def skip_strings(self, count: int) -> None:
        """Pass over strings, each after its length, as quickly as Python can.

        Raises:
            InputError: the file ends before.
        """
        unpack = struct.Struct(f"{self.order}Q").unpack_from
        data, at = self._data, self._at
        last = len(data) - _LENGTH_BYTES
        for _ in range(count):
            if at > last:
                self._move(at)
                self._fill(_LENGTH_BYTES)
                data, at = self._data, self._at
                last = len(data) - _LENGTH_BYTES
            at += _LENGTH_BYTES + unpack(data, at)[0]
        self._move(at)

    def strings(self, count: int) -> Iterator[bytes]:
        """Yield the next strings, each of which has its length before it."""
        for _ in range(count):
            yield self.take(self.number("Q"))

    def _move(self, at: int) -> None:
        """Go to an offset in the window, or behind it, as the lengths of strings said."""
        moved, self._at = at - self._at, self._at
        self.skip(moved)

    def too_short(self, count: int) -> NoReturn:
        """Raise InputError for a header that goes on behind the end of the file."""
        truncated(
            self.where,
            f"it ends in the middle of its header: {count} bytes expected at byte "
            f"{self.position}, {self.left} are left",
        )
