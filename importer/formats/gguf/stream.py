"""Read a file forward in windows, numbers in its byte order, every length checked first."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from importer.formats.gguf.problems import truncated

ReadRange = Callable[[int, int], bytes]
"""Gives the bytes of a file from the first offset to before the second."""

_FIRST: Final = 64 << 10
_WINDOW: Final = 1 << 20
"""Each window is twice as long as the one before, up to this: on the Hub it is a request."""
_LENGTH_BYTES: Final = 8


class Stream:
    """The bytes of a file from an offset on, of which a window is in memory.

    Attributes:
        where: what to call the file in a message.
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
        self.where: Final = where
        self.order = order
        self._read: Final = read
        self._size: Final = size
        self._begin = start
        self._data = b""
        self._at = 0
        self._window = _FIRST

    @property
    def position(self) -> int:
        """The offset in the file of the next byte."""
        return self._begin + self._at

    @property
    def left(self) -> int:
        """How many bytes follow."""
        return self._size - self.position

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
            if count > _WINDOW:
                self._window = _FIRST

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

    def _fill(self, count: int) -> None:
        self._check(count)
        start = self.position
        self._data = self._read(start, min(start + max(count, self._window), self._size))
        self._window = min(2 * self._window, _WINDOW)
        self._begin, self._at = start, 0

    def _check(self, count: int) -> None:
        if count > self.left:
            truncated(
                self.where,
                f"it ends in the middle of its header: {count} bytes expected at byte "
                f"{self.position}, {self.left} are left",
            )
