"""What a GGUF file says about itself: keys with values, arrays read only when asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from importer.formats.gguf.problems import malformed
from importer.formats.gguf.stream import Stream
from importer.formats.window import ReadRange
from store.text import is_printable, printable

_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
_KINDS: Final = {
    0: ("u8", "B"),
    1: ("i8", "b"),
    2: ("u16", "H"),
    3: ("i16", "h"),
    4: ("u32", "I"),
    5: ("i32", "i"),
    6: ("f32", "f"),
    _BOOL: ("bool", "B"),
    _STRING: ("string", ""),
    _ARRAY: ("array", ""),
    10: ("u64", "Q"),
    11: ("i64", "q"),
    12: ("f64", "d"),
}
"""The types of values: number in a file -> name, and code in `struct`."""
_CODES: Final = dict(_KINDS.values())
KIND_NUMBERS: Final = {kind: number for number, (kind, _) in _KINDS.items()}
"""The number in a file of each type of values, by its name."""
_INTEGERS: Final = frozenset({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"})

_KEYS: Final = 1 << 16
_KEY_BYTES: Final = (1 << 16) - 1
_STRING_BYTES: Final = 16 << 20
_TEXT_BYTES: Final = 48 << 20
"""Of all keys and of all strings that are not in arrays: those are kept in memory."""
_STRINGS: Final = 20_000_000
"""Strings and arrays in arrays: to pass over one takes 0.1 us."""
_DEPTH: Final = 4
_AT_ONCE: Final = 1 << 16
_LEAST: Final = {"string": 8, "array": 12}
"""Bytes of an empty one."""

Scalar = int | float | bool | str


class Value(NamedTuple):
    """A value that is not an array.

    Attributes:
        kind: `u8` to `f64`, `bool` or `string`.
    """

    kind: str
    value: Scalar

    @property
    def integer(self) -> int | None:
        """The value of an integer type, or None."""
        is_integer = self.kind in _INTEGERS and isinstance(self.value, int)
        return int(self.value) if is_integer else None


class Array(NamedTuple):
    """An array, by its place: a vocabulary has hundreds of thousands of strings.

    Attributes:
        kind: of the elements, as `Value.kind`, or `array`.
        length: how many there are.
        offset: in the file, of the first element.
        order: of the bytes of a number, as in `Stream`.
    """

    kind: str
    length: int
    offset: int
    order: str


Metadata = dict[str, Value | Array]
"""By key, in the order of the file."""


class MetadataReader:
    """Reads the keys and values at the start of a file, within bounds."""

    def __init__(self, stream: Stream) -> None:
        """Read on from where the stream is."""
        self._stream = stream
        self._where = stream.where
        self._text = _TEXT_BYTES
        self._strings = _STRINGS

    def read(self, count: int) -> Metadata:
        """Return the next `count` keys with their values.

        Raises:
            InputError: malformed, a key twice, or beyond the bounds of docs/formats/gguf.md.
        """
        if count > _KEYS:
            malformed(self._where, f"{count} keys of metadata, the limit is {_KEYS}", "E_LIMIT")
        found: Metadata = {}
        for _ in range(count):
            key = self._key()
            if key in found:
                malformed(self._where, f"the key `{key}` is there twice", "E_GGUF_DUPLICATE")
            found[key] = self._value(key)
        return found

    def _key(self) -> str:
        data = self._string("a key", _KEY_BYTES)
        key = self._decode(data, "a key")
        if not key or not is_printable(key):
            malformed(self._where, f"the key `{printable(key)}` is empty or not printable")
        return key

    def _value(self, key: str) -> Value | Array:
        stream = self._stream
        kind, code = self._kind(key)
        if kind == "array":
            return self._array(key, 1)
        if kind == "string":
            return Value(
                kind, self._decode(self._string(f"`{key}`", _STRING_BYTES), f"`{key}`")
            )
        form = stream.order + code
        (value,) = struct.unpack(form, stream.take(struct.calcsize(form)))
        if kind == "bool":
            if value > 1:
                malformed(self._where, f"`{key}` is a boolean of {value}, expected 0 or 1")
            value = bool(value)
        return Value(kind, value)

    def _kind(self, key: str) -> tuple[str, str]:
        number = self._stream.number("I")
        if number not in _KINDS:
            malformed(self._where, f"`{key}` has the type {number}, expected 0 to 12")
        return _KINDS[number]

    def _array(self, key: str, depth: int) -> Array:
        stream = self._stream
        kind, code = self._kind(key)
        count = stream.number("Q")
        found = Array(kind, count, stream.position, stream.order)
        least = struct.calcsize(code) if code else _LEAST[kind]
        if count * least > stream.left:
            malformed(
                self._where,
                f"`{key}` is an array of {count} elements, and {stream.left} bytes follow",
                "E_GGUF_TRUNCATED",
            )
        if code:
            stream.skip(count * least)
            return found
        self._strings -= count
        if self._strings < 0:
            message = f"more than {_STRINGS} strings and arrays in arrays, up to `{key}`"
            malformed(self._where, message, "E_LIMIT")
        if kind == "string":
            stream.skip_strings(count)
            return found
        if depth == _DEPTH:
            malformed(self._where, f"`{key}`: arrays in more than {_DEPTH} levels", "E_LIMIT")
        for _ in range(count):
            self._array(key, depth + 1)
        return found

    def _string(self, what: str, limit: int) -> bytes:
        length = self._stream.number("Q")
        if length > self._stream.left:
            message = f"{what} has {length} bytes, and {self._stream.left} follow"
            malformed(self._where, message, "E_GGUF_TRUNCATED")
        self._text -= length
        if length > limit or self._text < 0:
            total = "" if length > limit else f" with what is before it {_TEXT_BYTES}"
            message = f"{what} has {length} bytes, the limit is {total or limit}"
            malformed(self._where, message, "E_LIMIT")
        return self._stream.take(length)

    def _decode(self, data: bytes, what: str) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            message = f"{what} is not UTF-8 at its byte {error.start}"
            malformed(self._where, message, "E_GGUF_UTF8")


def number_bytes(kind: str) -> int:
    """Return the bytes of a number of an array, or 0 where its elements are not numbers."""
    return struct.calcsize(_CODES[kind]) if _CODES[kind] else 0


def number_code(kind: str) -> str:
    """Return the code of a number's type in `struct`; empty for other types."""
    return _CODES[kind]


def read_array(array: Array, read: ReadRange, size: int, where: str) -> Iterator[object]:
    """Yield the elements of an array, in bounded memory: numbers, strings, or lists of them.

    Args:
        array: of a file that was read to its end before.
        read: gives bytes of that file.
        size: of the file.
        where: what to call it.

    Raises:
        InputError: a string is not UTF-8, or larger than 16 MiB.
    """
    yield from _elements(Stream(read, size, where, array.offset, array.order), array)


def _elements(stream: Stream, array: Array) -> Iterator[object]:
    if array.kind == "string":
        for number in range(array.length):
            length = stream.number("Q")
            if length > _STRING_BYTES:
                message = f"string {number} of an array has {length} bytes"
                malformed(stream.where, f"{message}, the limit is {_STRING_BYTES}", "E_LIMIT")
            try:
                yield stream.take(length).decode()
            except UnicodeDecodeError:
                message = f"string {number} of an array is not UTF-8"
                malformed(stream.where, message, "E_GGUF_UTF8")
        return
    if array.kind == "array":
        for _ in range(array.length):
            kind, _ = _KINDS[stream.number("I")]
            count = stream.number("Q")
            yield list(_elements(stream, Array(kind, count, stream.position, array.order)))
        return
    code = _CODES[array.kind]
    item = struct.calcsize(code)
    for start in range(0, array.length, _AT_ONCE):
        count = min(_AT_ONCE, array.length - start)
        values = struct.unpack(f"{stream.order}{count}{code}", stream.take(count * item))
        yield from map(bool, values) if array.kind == "bool" else values
