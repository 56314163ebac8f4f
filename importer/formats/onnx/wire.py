"""The wire format of protobuf: varints, tags and lengths, each checked before it is believed.

Source: protobuf's "Encoding" page. Stricter than its parsers: a varint has at most 64 bits, a
tag 32, and groups, which ONNX never had, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from importer.formats.onnx.problems import malformed

ReadRange = Callable[[int, int], bytes]
"""Gives the bytes of a file from the first offset to before the second."""

VARINT: Final = 0
FIXED_64: Final = 1
LENGTH: Final = 2
FIXED_32: Final = 5
_FIXED: Final = {FIXED_64: 8, FIXED_32: 4}
_MORE: Final = 0x80
_VARINT_BYTES: Final = 10
_BITS_64: Final = (1 << 64) - 1
_BITS_32: Final = (1 << 32) - 1
_CONTINUED: Final = bytes(range(_MORE, 256))
_TAIL: Final = re.compile(rb"[\x80-\xff]+\Z")
_TOO_LONG: Final = re.compile(rb"[\x80-\xff]{10}|[\x80-\xff]{9}[\x02-\x7f]")
_FIRST: Final = 16 << 10
"""Bytes that are read after a jump: weights lie between, and there are many."""
_WINDOW: Final = 1 << 20
_FIELDS: Final = 1 << 24
"""Of one file: a model of 10 000 nodes has some hundred thousand."""


class Span(NamedTuple):
    """Bytes of a file.

    Attributes:
        end: the offset after the last one.
    """

    start: int
    end: int

    @property
    def nbytes(self) -> int:
        """How many they are."""
        return self.end - self.start


class Tag(NamedTuple):
    """What stands before the value of a field.

    Attributes:
        start: offset of the tag itself.
        number: of the field.
        wire: type of what follows, one of VARINT, FIXED_64, LENGTH and FIXED_32.
    """

    start: int
    number: int
    wire: int


class Wire:
    """Reads a file in pieces; what is skipped is not read.

    Attributes:
        where: what to call the file in a message.
        size: of the file, in bytes.
    """

    def __init__(self, where: str, size: int, read: ReadRange) -> None:
        """Start at the beginning, without reading anything."""
        self.where: Final = where
        self.size: Final = size
        self._read: Final = read
        self._data = b""
        self._begin = 0
        self._at = 0
        self._window = _FIRST
        self._fields = 0

    @property
    def position(self) -> int:
        """The offset in the file of the next byte."""
        return self._begin + self._at

    def seek(self, position: int) -> None:
        """Go on at an offset in the file."""
        at = position - self._begin
        if 0 <= at <= len(self._data):
            self._at = at
        else:
            self._begin, self._at, self._data = position, 0, b""
            self._window = _FIRST

    def take(self, span: Span) -> bytes:
        """Return the bytes of a span, which has been checked to be in the file."""
        self.seek(span.start)
        if self._at + span.nbytes > len(self._data):
            self._fill(span.nbytes)
        taken = self._data[self._at : self._at + span.nbytes]
        self._at += span.nbytes
        return taken

    def tag(self, end: int) -> Tag:
        """Read the tag of a field of a message that ends at `end`.

        Raises:
            InputError: it is malformed, or the file has too many fields.
        """
        start = self.position
        tag = self.varint(end)
        number, wire = tag >> 3, tag & 7
        if tag > _BITS_32 or not number:
            malformed(self.where, f"a field numbered {number} at byte {start}")
        if wire not in {VARINT, FIXED_64, LENGTH, FIXED_32}:
            malformed(self.where, f"a field of wire type {wire} at byte {start}")
        self._fields += 1
        if self._fields > _FIELDS:
            malformed(self.where, f"more than {_FIELDS} fields", "E_LIMIT")
        return Tag(start, number, wire)

    def varint(self, end: int) -> int:
        """Read an unsigned number of up to 64 bits that ends before `end`.

        Raises:
            InputError: it does not, or has more bits.
        """
        at = self._at
        if at < len(self._data) and self._begin + at < end and self._data[at] < _MORE:
            self._at = at + 1
            return self._data[at]
        value = 0
        start = self.position
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            byte = self._byte(end)
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                if value > _BITS_64:
                    break
                return value
        return malformed(self.where, f"a number of more than 64 bits at byte {start}")

    def value(self, tag: Tag, end: int) -> Span:
        """Return where the value of a field is; of a number, go on after it.

        Raises:
            InputError: it is not within the message that ends at `end`.
        """
        if tag.wire == VARINT:
            start = self.position
            self.varint(end)
            return Span(start, self.position)
        length = self.varint(end) if tag.wire == LENGTH else _FIXED[tag.wire]
        start = self.position
        if length > end - start:
            malformed(
                self.where,
                f"a field of {length} bytes at byte {start}, where {end - start} are left",
                "E_ONNX_TRUNCATED" if end == self.size else "E_ONNX_WIRE",
            )
        return Span(start, start + length)

    def count_varints(self, span: Span, step: int = 0) -> tuple[int, tuple[int, ...]]:
        """Return how many packed numbers a span holds, and where every `step`th begins.

        Raises:
            InputError: one has more than 64 bits, or the last one does not end.
        """
        count, starts = 0, [0]
        at = span.start
        while at < span.end:
            data = self.take(Span(at, min(at + _WINDOW, span.end)))
            if data[-1] >= _MORE:  # the rest of the last number is read with what follows
                data = data[: len(data) - len(_TAIL.search(data)[0])]  # type: ignore[index]
            if not data or _TOO_LONG.search(data):
                malformed(
                    self.where, f"packed numbers at byte {at} do not end, or are too long"
                )
            found = len(data.translate(None, _CONTINUED))
            if step and (count + found) // step > count // step:
                steps = range(-count % step or step, found + 1, step)
                starts += _places(data, at - span.start, steps)
            count += found
            at += len(data)
        return count, tuple(starts)

    def _byte(self, end: int) -> int:
        if self.position >= end:
            malformed(
                self.where,
                f"it ends in the middle of a number at byte {end}",
                "E_ONNX_TRUNCATED" if end == self.size else "E_ONNX_WIRE",
            )
        if self._at >= len(self._data):
            self._fill(1)
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _fill(self, count: int) -> None:
        start = self.position
        self._data = self._read(start, min(start + max(count, self._window), self.size))
        self._begin, self._at = start, 0
        self._window = min(self._window * 4, _WINDOW)


def _places(data: bytes, begin: int, numbers: range) -> Iterator[int]:
    """Yield where packed numbers begin, after so many others, counted from the span's start."""
    import numpy as np  # noqa: PLC0415 - only long arrays of numbers need it

    ends = np.flatnonzero(np.frombuffer(data, "u1") < _MORE)
    for number in numbers:
        yield begin + int(ends[number - 1]) + 1
