"""Read the fields of messages by the schema: what is not asked for is checked all the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from importer.formats.onnx.problems import malformed
from importer.formats.onnx.schema import SCHEMA, Field, Kind
from importer.formats.onnx.wire import FIXED_32, FIXED_64, LENGTH, VARINT, Span, Wire
from store import limits
from store.text import is_printable, printable

_WIRES: Final = {
    Kind.INT_64: VARINT,
    Kind.INT_32: VARINT,
    Kind.UINT_64: VARINT,
    Kind.FLOAT: FIXED_32,
    Kind.DOUBLE: FIXED_64,
    Kind.TEXT: LENGTH,
    Kind.BYTES: LENGTH,
    Kind.MESSAGE: LENGTH,
}
_TABLES: Final = {
    message: {number: (field, _WIRES[field.kind]) for number, field in fields.items()}
    for message, fields in SCHEMA.items()
}
"""Of each message its fields by number, and the wire type of each."""
_SIZES: Final = {FIXED_32: 4, FIXED_64: 8}
_DEPTH: Final = 90
"""Messages in each other; protobuf's own parsers stop at 100."""
_TEXT_BYTES: Final = 64 << 10
BUDGET: Final = 128 << 20
"""Bytes of what is kept of one file, estimated."""
_VALUE: Final = 120
_NUMBER: Final = 16
_VALUES: Final = 1 << 17
"""Of one name in one message, one by one: most are packed, or in raw data."""


class Value(NamedTuple):
    """The value of a field.

    Attributes:
        span: where it is; of several packed numbers, all of them.
        start: offset of the tag before it.
    """

    field: Field
    span: Span
    start: int
    is_packed: bool

    @property
    def name(self) -> str:
        """The name of the field."""
        return self.field.name


class Reader:
    """Reads messages of a file.

    Attributes:
        where: what to call the file in a message.
    """

    def __init__(self, wire: Wire) -> None:
        """Read from a file."""
        self.where: Final = wire.where
        self._wire: Final = wire
        self._depth = 0
        self._kept = 0

    @property
    def whole(self) -> Span:
        """The whole file."""
        return Span(0, self._wire.size)

    def charge(self, nbytes: int = _VALUE) -> None:
        """Count what is kept.

        Raises:
            InputError: it is too much.
        """
        self._kept += nbytes
        if self._kept > BUDGET:
            malformed(self.where, f"its graph needs more than {BUDGET} bytes", "E_LIMIT")

    def collect(self, found: dict[str, list[Value]], value: Value) -> None:
        """Add a value to those of its name in one message.

        Raises:
            InputError: there are too many.
        """
        values = found.setdefault(value.name, [])
        values.append(value)
        if len(values) > _VALUES:
            message = f"more than {_VALUES} values `{value.name}` in one message"
            malformed(self.where, message, "E_LIMIT")

    def deepen(self, messages: int) -> None:
        """Count messages around what is read, whose other fields have been read already."""
        self._depth += messages

    def fields(self, message: str, span: Span, wanted: Collection[str]) -> Iterator[Value]:
        """Yield the fields of some names, in the order of the file; check all others.

        Raises:
            InputError: a field is malformed, of another type, or there twice.
        """
        table, wire, seen = _TABLES[message], self._wire, set()
        self._depth += 1
        if self._depth > _DEPTH:
            malformed(self.where, f"more than {_DEPTH} messages in each other")
        wire.seek(span.start)
        while wire.position < span.end:
            tag = wire.tag(span.end)
            place = wire.value(tag, span.end)
            if (known := table.get(tag.number)) is not None:
                field, expected = known
                is_packed = tag.wire != expected
                if is_packed and not (field.is_repeated and tag.wire == LENGTH):
                    malformed(
                        self.where,
                        f"`{field.name}` at byte {tag.start} has wire type {tag.wire}, "
                        f"expected {expected}",
                    )
                if not field.is_repeated:
                    if field.name in seen:
                        malformed(self.where, f"two fields `{field.name}` in one {message}")
                    seen.add(field.name)
                if field.name in wanted:
                    yield Value(field, place, tag.start, is_packed)
                elif is_packed or field.message:
                    self.check(Value(field, place, tag.start, is_packed))
            wire.seek(place.end)
        self._depth -= 1

    def check(self, value: Value) -> None:
        """Read a value and keep nothing.

        Raises:
            InputError: it is malformed.
        """
        if value.field.message:
            for _ in self.fields(value.field.message, value.span, ()):
                pass
        elif value.is_packed:
            self.count(value)

    def count(self, value: Value, step: int = 0) -> tuple[int, tuple[int, ...]]:
        """Return how many numbers are packed, and where every `step`th begins.

        Raises:
            InputError: they are malformed.
        """
        expected = _WIRES[value.field.kind]
        if expected == VARINT:
            return self._wire.count_varints(value.span, step)
        count, rest = divmod(value.span.nbytes, _SIZES[expected])
        if rest:
            malformed(self.where, f"`{value.name}` has {value.span.nbytes} bytes")
        return count, (0,)

    def number(self, value: Value) -> int:
        """Return a number.

        Raises:
            InputError: one of 32 bits has more.
        """
        self._wire.seek(value.span.start)
        return self._signed(value, value.span.end)

    def numbers(self, values: Iterable[Value], limit: int) -> tuple[int, ...]:
        """Return numbers, packed or not.

        Raises:
            InputError: there are more than `limit`.
        """
        found: list[int] = []
        for value in values:
            self._wire.seek(value.span.start)
            while self._wire.position < value.span.end:
                if len(found) == limit:
                    message = f"`{value.name}` has more than {limit} numbers"
                    malformed(self.where, message, "E_LIMIT")
                found.append(self._signed(value, value.span.end))
        return tuple(found)

    def text(self, value: Value) -> str:
        """Return text.

        Raises:
            InputError: it is too long, or not UTF-8.
        """
        if value.span.nbytes > _TEXT_BYTES:
            message = (
                f"`{value.name}` has {value.span.nbytes} bytes, the limit is {_TEXT_BYTES}"
            )
            malformed(self.where, message, "E_LIMIT")
        try:
            return self._wire.take(value.span).decode()
        except UnicodeDecodeError:
            malformed(self.where, f"`{value.name}` at byte {value.span.start} is not UTF-8")

    def take(self, span: Span) -> bytes:
        """Return the first bytes of a span, as many as a number has."""
        return self._wire.take(Span(span.start, min(span.end, span.start + _NUMBER)))

    def tensor_name(self, name: str) -> str:
        """Return a name, if a tensor can have it.

        Raises:
            InputError: it is empty, unprintable or too long.
        """
        shown = printable(name)
        if not name or not is_printable(name):
            message = f"tensor name `{shown}` is empty or unprintable"
            malformed(self.where, message, "E_NAME")
        if len(name.encode()) > limits.TENSOR_NAME_BYTES:
            message = f"`{shown}` is longer than {limits.TENSOR_NAME_BYTES} bytes"
            malformed(self.where, f"tensor name {message}", "E_NAME")
        return name

    def _signed(self, value: Value, end: int) -> int:
        number = self._wire.varint(end)
        if value.field.kind is not Kind.UINT_64 and number >= 1 << 63:
            number -= 1 << 64
        if value.field.kind is Kind.INT_32 and not -(1 << 31) <= number < 1 << 31:
            malformed(self.where, f"`{value.name}` is {number}, which needs more than 32 bits")
        return number
