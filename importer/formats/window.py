"""A file that is read forward, of which a window is in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, NoReturn

ReadRange = Callable[[int, int], bytes]
"""Gives the bytes of a file from the first offset to before the second."""

FIRST: Final = 64 << 10
LARGEST: Final = 1 << 20
"""Each window is twice as long as the one before, up to this: on the Hub it is a request."""


class Window(ABC):
    """The bytes of a file between two offsets, read forward, with every length checked first.

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
        self._length = FIRST

    @property
    def position(self) -> int:
        """The offset in the file of the next byte."""
        return self._begin + self._at

    @property
    def left(self) -> int:
        """How many bytes follow."""
        return self._end - self.position

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

    @abstractmethod
    def too_short(self, count: int) -> NoReturn:
        """Raise InputError, in the words of the format, for bytes that are not there."""

    def _fill(self, count: int) -> None:
        self._check(count)
        start = self.position
        self._data = self._read(start, min(start + max(count, self._length), self._end))
        self._length = min(2 * self._length, LARGEST)
        self._begin, self._at = start, 0

    def _check(self, count: int) -> None:
        if count > self.left:
            self.too_short(count)
