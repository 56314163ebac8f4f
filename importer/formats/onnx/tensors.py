"""One tensor of an ONNX file: its type, its shape, and where its data is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from importer.formats.onnx.data_types import STRING, TYPES, DataType
from importer.formats.onnx.problems import malformed, unread
from importer.formats.onnx.reader import Reader, Value
from importer.formats.onnx.schema import Kind
from importer.formats.onnx.wire import Span
from store import limits
from store.text import printable

_INT: Final = "int32_data"
_ITEMS: Final = {"float_data": 4, "double_data": 8}
_FIELDS: Final = frozenset(kind.field for kind in TYPES.values())
_BYTE: Final = 8
_FLOAT_6: Final = 6
_EXTERNAL: Final = 1
_ENTRIES: Final = 64
_DIGITS: Final = 19

STEP: Final = 1 << 16
"""Every so many numbers of variable length it is noted where they begin."""


class External(NamedTuple):
    """Data in another file.

    Attributes:
        location: as the model says it, unchecked.
        offset: of its first byte.
        length: in bytes, or None for the rest of the file.
    """

    location: str
    offset: int
    length: int | None


class Numbers(NamedTuple):
    """Data as numbers of variable length, or one by one after tags.

    Attributes:
        starts: where every `STEP`th number begins, counted from that of the data.
        is_tagged: whether a tag of one byte stands before each.
        is_varint: whether they are of variable length.
    """

    starts: tuple[int, ...] = (0,)
    is_tagged: bool = False
    is_varint: bool = True


class Tensor(NamedTuple):
    """A tensor, and where its data is.

    Attributes:
        name: in its graph, or empty.
        kind: of its elements.
        data: where its bytes are in the file; of external data nothing.
        external: where they are in another file, or None.
        numbers: how they are written where they are not raw bytes, or None.
    """

    name: str
    kind: DataType
    shape: tuple[int, ...]
    data: Span
    external: External | None = None
    numbers: Numbers | None = None

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements as raw data has them."""
        return -(-self.elements * self.kind.bits // _BYTE)


_WANTED: Final = frozenset(
    {"dims", "data_type", "segment", "name", "raw_data", "external_data", "data_location"}
    | _FIELDS
)
_DATA: Final = frozenset({"raw_data", *_FIELDS})


def read_tensor(reader: Reader, span: Span, name: str = "") -> Tensor:
    """Read all of a `TensorProto` but its values.

    Args:
        name: what to call it if it has no name.

    Raises:
        InputError: its parts do not fit each other.
        UnsupportedError: elements of a type that is not known, or data in several pieces.
    """
    found: dict[str, list[Value]] = {}
    for value in reader.fields("TensorProto", span, _WANTED):
        if value.name != "string_data":  # a vocabulary, of which nothing is read
            reader.collect(found, value)
        else:
            found[value.name] = [value]
    name = "".join(map(reader.text, found.get("name", ()))) or name
    numbers = {
        key: reader.number(found[key][0]) if key in found else 0
        for key in ("data_type", "data_location")
    }
    where = f"{reader.where}: tensor `{printable(name)}`"
    shape = reader.numbers(found.get("dims", ()), limits.RANK)
    tensor = Tensor(name, _kind(where, numbers["data_type"]), shape, Span(0, 0))
    _check_shape(where, tensor)
    if "segment" in found:
        unread(where, "it is a segment of a tensor")
    location = numbers["data_location"]
    if location not in {0, _EXTERNAL}:
        malformed(where, f"its data is at a place of kind {location}", "E_ONNX_TENSOR")
    there = sorted(_DATA.intersection(found))
    if len(there) + location > 1:
        shown = ", ".join(["external data"] * location + there)
        malformed(where, f"its data is in several places: {shown}", "E_ONNX_TENSOR")
    outside = found.get("external_data", ())
    if location:
        return tensor._replace(external=_external(where, _entries(reader, outside)))
    for value in outside:
        reader.check(value)
    return _with_data(reader, where, tensor, found)


def _with_data(
    reader: Reader, where: str, tensor: Tensor, found: Mapping[str, Sequence[Value]]
) -> Tensor:
    field = tensor.kind.field
    if raw := found.get("raw_data"):
        return tensor._replace(data=_sized(where, tensor, raw[0].span))
    others = _DATA.intersection(found) - {field}
    if others:
        message = f"its data is in `{min(others)}`, expected `{field}` for {tensor.kind.name}"
        malformed(where, message, "E_ONNX_TENSOR")
    if field == "string_data":
        return tensor
    if tensor.elements and field not in found:
        malformed(where, "it has no data", "E_ONNX_TENSOR")
    return typed(reader, where, tensor, found.get(field, ()))


def typed(reader: Reader, where: str, tensor: Tensor, values: Sequence[Value]) -> Tensor:
    """Return a tensor with the place of the values of its own field.

    Raises:
        InputError: there are too few of them, or too many.
        UnsupportedError: they are in several pieces, or floats of 6 bits.
    """
    kind = tensor.kind
    expected = tensor.elements
    if kind.field == _INT and kind.bits < _BYTE:
        expected = tensor.nbytes  # packed in bytes first
        if kind.bits == _FLOAT_6 and expected:
            unread(where, f"{kind.name} in `{_INT}`, which ingot reads as raw data only")
    elif kind.field in _ITEMS:
        expected = tensor.nbytes // _ITEMS[kind.field]
    if not values:
        found, span, numbers = 0, Span(0, 0), Numbers()
    elif len(values) == 1 and values[0].is_packed:
        (value,) = values
        found, starts = reader.count(value, STEP)
        span, numbers = value.span, Numbers(starts)
    else:
        found, span = len(values), Span(values[0].start, values[-1].span.end)
        numbers = Numbers(is_tagged=True)
        gaps = any(one.span.end != two.start for one, two in itertools.pairwise(values))
        tags = any(value.span.start != value.start + 1 for value in values)
        if gaps or tags or any(value.is_packed for value in values) or found > STEP:
            unread(where, f"its `{kind.field}` is in several pieces")
    if found != expected:
        message = f"`{kind.field}` has {found} numbers, {list(tensor.shape)} needs {expected}"
        malformed(where, message, "E_ONNX_TENSOR")
    is_varint = kind.field not in _ITEMS
    if not (is_varint or numbers.is_tagged):
        return tensor._replace(data=span)
    return tensor._replace(data=span, numbers=numbers._replace(is_varint=is_varint))


def attribute_values(reader: Reader, name: str, values: Sequence[Value]) -> Tensor:
    """Return the tensor that numbers of an attribute are: a scalar, or a list.

    Raises:
        UnsupportedError: the list is in several pieces.
    """
    is_float = values[0].field.kind is Kind.FLOAT
    kind = TYPES[1 if is_float else 7]
    kind = kind._replace(field="float_data" if is_float else "int64_data")
    shape: tuple[int, ...] = ()
    if values[0].field.is_repeated:
        count = reader.count(values[0])[0] if values[0].is_packed else len(values)
        shape = (count,)
    where = f"{reader.where}: tensor `{printable(name)}`"
    return typed(reader, where, Tensor(name, kind, shape, Span(0, 0)), values)


def _entries(reader: Reader, values: Iterable[Value]) -> dict[str, str]:
    entries: dict[str, str] = {}
    for value in values:
        found = {
            one.name: reader.text(one)
            for one in reader.fields("StringStringEntryProto", value.span, {"key", "value"})
        }
        key = found.get("key", "")
        if key in entries or len(entries) >= _ENTRIES:
            message = (
                f"two entries `{printable(key)}` of external data, or more than {_ENTRIES}"
            )
            malformed(reader.where, message, "E_ONNX_DATA")
        entries[key] = found.get("value", "")
    return entries


def _external(where: str, entries: dict[str, str]) -> External:
    location = entries.get("location", "")
    if not location:
        malformed(where, "its external data has no location", "E_ONNX_DATA")
    places = {}
    for key in ("offset", "length"):
        text = entries.get(key)
        if text is None:
            continue
        if not (
            text.isascii() and text.isdecimal() and len(text) <= len(str(limits.DIMENSION))
        ):
            message = f"the {key} of its external data is `{printable(text)}`"
            malformed(where, message, "E_ONNX_DATA")
        places[key] = int(text)
    return External(location, places.get("offset", 0), places.get("length"))


def _kind(where: str, number: int) -> DataType:
    if number not in TYPES:
        if number <= 0:
            malformed(
                where, f"its elements are of type {number}, expected 1 or more", "E_ONNX_TENSOR"
            )
        unread(where, f"its elements are of type {number}, which ingot does not know")
    kind = TYPES[number]
    if not kind.dtype and number != STRING:
        unread(where, f"its elements are {kind.name}, for which the store has no dtype")
    return kind


def _check_shape(where: str, tensor: Tensor) -> None:
    count = 1
    for size in tensor.shape:
        if size < 0:
            message = f"a dimension of {list(tensor.shape)} is negative"
            malformed(where, message, "E_ONNX_TENSOR")
        count *= max(size, 1)
        if count * _BYTE * 2 > limits.DIMENSION:
            message = f"{list(tensor.shape)} has too many elements"
            malformed(where, message, "E_ONNX_TENSOR")


def _sized(where: str, tensor: Tensor, span: Span) -> Span:
    if span.nbytes != tensor.nbytes or tensor.kind.field == "string_data":
        message = (
            f"{tensor.kind.name} {list(tensor.shape)} needs {tensor.nbytes} bytes, "
            f"its raw data has {span.nbytes}"
        )
        malformed(where, message, "E_ONNX_TENSOR")
    return span
