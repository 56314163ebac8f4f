"""The safetensors container: headers read strictly and written the same way every time.

Layout (safetensors format description): u64 little-endian header length, JSON header, data.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn, cast

from store import limits
from store.errors import InputError, UnsupportedError
from store.json import Fault, Json, JsonError, dumps, loads, sorted_keys
from store.text import is_printable, printable

ITEM_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "BOOL": 8,
        "F4": 4,
        "F6_E2M3": 6,
        "F6_E3M2": 6,
        "U8": 8,
        "I8": 8,
        "F8_E5M2": 8,
        "F8_E4M3": 8,
        "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8,
        "I16": 16,
        "U16": 16,
        "F16": 16,
        "BF16": 16,
        "I32": 32,
        "U32": 32,
        "F32": 32,
        "C64": 64,
        "F64": 64,
        "I64": 64,
        "U64": 64,
    }
)
"""Bits per element of every dtype that safetensors 0.8 reads."""

LENGTH_BYTES: Final = 8
METADATA: Final = "__metadata__"
ALIGNMENT: Final = 8
_FIELDS: Final = frozenset({"dtype", "shape", "data_offsets"})


class TensorEntry(NamedTuple):
    """One tensor of a container.

    Attributes:
        shape: in elements, outermost first.
        begin: first byte, counted from the start of the data region.
        nbytes: of the data.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    nbytes: int


class Header(NamedTuple):
    """What the header of a container says.

    Attributes:
        entries: in the order of their data.
        nbytes: offset of the data region in the file.
    """

    entries: tuple[TensorEntry, ...]
    metadata: Mapping[str, str]
    nbytes: int


def elements(shape: Iterable[int]) -> int:
    """Count the elements of a tensor; a scalar has one."""
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def data_bytes(dtype: str, shape: Iterable[int]) -> int:
    """Size in bytes of a tensor's data; sub-byte dtypes fill whole bytes."""
    return elements(shape) * ITEM_BITS[dtype] // 8


def encode_header(
    entries: Iterable[tuple[str, str, tuple[int, ...], int]],
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Write the length and header of a container, as Ollama's Go writer does.

    Keys are sorted bytewise, the data follows the order of `entries` without gaps, and spaces
    pad the JSON to a multiple of 8 (docs/formats/blobs.md).

    Args:
        entries: name, dtype, shape and size in bytes of each tensor, in the order of the data.
        metadata: written as `__metadata__` unless empty.
    """
    document: dict[str, object] = {}
    offset = 0
    for name, dtype, shape, nbytes in entries:
        document[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [offset, offset + nbytes],
        }
        offset += nbytes
    if metadata:
        document[METADATA] = sorted_keys(metadata)
    text = dumps(sorted_keys(document))
    text += b" " * (-len(text) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def header_length(prefix: bytes, file_size: int, where: str) -> int:
    """Read the header's length from the first bytes of a file, refusing absurd ones.

    Raises:
        InputError: the file cannot hold such a header; `where` names it in the message.
    """
    if file_size < LENGTH_BYTES or len(prefix) < LENGTH_BYTES:
        _bad(where, "E_ST_SHORT", f"{file_size} bytes, expected at least 8")
    length: int = struct.unpack_from("<Q", prefix)[0]
    if length == 0:
        _bad(where, "E_ST_HEADER_JSON", "empty header")
    if length > limits.HEADER_BYTES:
        message = f"header length {length}, expected at most {limits.HEADER_BYTES}"
        _bad(where, "E_ST_HEADER_SIZE", message)
    if length > file_size - LENGTH_BYTES:
        message = f"file has {file_size} bytes, expected {LENGTH_BYTES + length} for its header"
        _bad(where, "E_ST_TRUNCATED", message, hint=_AGAIN)
    return length


def parse_header(text: bytes, file_size: int, where: str) -> Header:
    """Read the JSON header of a file of `file_size` bytes, accepting no doubt.

    Stricter than the reference: duplicate keys, unknown fields, unprintable names and more
    than 16 dimensions are refused (docs/formats/limits.md lists each).

    Raises:
        InputError: the file is malformed; the message begins with `where`.
        UnsupportedError: a dtype that we do not know.
    """
    document = _document(text, where)
    metadata = _metadata(document.pop(METADATA, {}), where)
    if len(document) > limits.TENSORS_PER_FILE:
        message = f"{len(document)} tensors, the limit is {limits.TENSORS_PER_FILE}"
        _bad(where, "E_LIMIT", message)
    entries = [_entry(name, value, where) for name, value in _drained(document)]
    entries.sort(key=lambda entry: (entry.begin, entry.nbytes))
    nbytes = LENGTH_BYTES + len(text)
    _check_layout(entries, file_size - nbytes, where)
    return Header(tuple(entries), metadata, nbytes)


def _drained(document: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    # What was read is let go: as JSON 100 000 entries take twice what they become.
    while document:
        yield document.popitem()


def _document(text: bytes, where: str) -> dict[str, Json]:
    try:
        document = loads(text, floats=True)
    except JsonError as error:
        codes = {
            Fault.UTF8: "E_ST_UTF8",
            Fault.DUPLICATE: "E_ST_DUPLICATE",
            Fault.NUMBER: "E_JSON_NUMBER",
            Fault.DEPTH: "E_JSON_DEPTH",
        }
        _bad(where, codes.get(error.fault, "E_ST_HEADER_JSON"), f"header: {error}")
    if not isinstance(document, dict):
        _bad(where, "E_ST_HEADER_TYPE", "header is not a JSON object")
    if not text.startswith(b"{"):
        _bad(where, "E_ST_HEADER_JSON", "header does not begin with `{`")
    return document


def _metadata(value: Json, where: str) -> dict[str, str]:
    if value is None:  # MLX, and so Ollama, writes `null` where there is none
        return {}
    if not isinstance(value, dict):
        _bad(where, "E_ST_METADATA", f"`{METADATA}` is not an object of strings")
    for key, text in value.items():
        if not isinstance(text, str):
            _bad(
                where,
                "E_ST_METADATA",
                f"`{METADATA}` value of `{printable(key)}` is not a string",
            )
    return {key: str(text) for key, text in value.items()}


def _entry(name: str, value: Json, where: str) -> TensorEntry:
    # The length first: to look at 99 MB of letters for one that does not print takes 10 s.
    if len(name) * 4 > limits.TENSOR_NAME_BYTES < len(name.encode()):
        message = (
            f"tensor name `{printable(name)}` is longer than {limits.TENSOR_NAME_BYTES} bytes"
        )
        _bad(where, "E_NAME", message)
    if not name or not is_printable(name):
        _bad(where, "E_NAME", f"tensor name `{printable(name)}` is empty or unprintable")
    if not isinstance(value, dict) or value.keys() != _FIELDS:
        expected = ", ".join(f"`{field}`" for field in sorted(_FIELDS))
        _bad(where, "E_ST_FIELDS", f"tensor `{name}` must have exactly the fields {expected}")
    dtype = value["dtype"]
    if not isinstance(dtype, str) or dtype not in ITEM_BITS:
        raise UnsupportedError(
            f"{where}: tensor `{name}` has dtype `{printable(str(dtype))}`, which no version "
            "of the format that we know defines",
            code="E_ST_DTYPE",
        )
    begin, end = _offsets(name, value["data_offsets"], where)
    shape = _shape(name, value["shape"], where)
    bits = elements(shape) * ITEM_BITS[dtype]
    if bits % 8 or bits // 8 != end - begin:
        needed = str(bits // 8) + (f"+{bits % 8}/8" if bits % 8 else "")
        message = f"tensor `{name}`: offsets give {end - begin} bytes, expected {needed}"
        _bad(where, "E_ST_SIZE", message)
    return TensorEntry(name, sys.intern(dtype), _one_of(shape), begin, end - begin)


@functools.lru_cache(4096)
def _one_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    # Thousands of tensors have a handful of shapes: each once takes less memory.
    return shape


def _offsets(name: str, value: Json, where: str) -> tuple[int, int]:
    # By type, because true and false are integers to isinstance.
    if isinstance(value, list) and [type(number) for number in value] == [int, int]:
        begin, end = cast("list[int]", value)
    else:
        begin, end = 0, -1
    if not 0 <= begin <= end <= limits.DIMENSION:
        message = (
            f"data_offsets {printable(str(value))}, expected integers 0 <= begin <= end < 2^63"
        )
        _bad(where, "E_ST_OFFSETS", f"tensor `{name}`: {message}")
    return begin, end


def _shape(name: str, value: Json, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        _bad(where, "E_ST_SHAPE", f"tensor `{name}` has a shape that is not a list")
    if len(value) > limits.RANK:
        message = f"tensor `{name}` has {len(value)} dimensions, the limit is {limits.RANK}"
        _bad(where, "E_ST_RANK", message)
    shape: list[int] = []
    count = 1
    for dimension in value:
        if type(dimension) is not int or dimension < 0:
            shown = printable(str(dimension))
            _bad(where, "E_ST_SHAPE", f"tensor `{name}` has dimension {shown}")
        shape.append(dimension)
        count *= dimension
        if max(count, dimension) > limits.DIMENSION:
            _bad(where, "E_ST_SHAPE", f"tensor `{name}` has more than 2^63 elements")
    return tuple(shape)


def _check_layout(entries: list[TensorEntry], available: int, where: str) -> None:
    end, previous = 0, ""
    for entry in entries:
        if entry.begin > end:
            message = f"hole of {entry.begin - end} bytes before tensor `{entry.name}`"
            _bad(where, "E_ST_HOLE", message)
        if entry.begin < end:
            message = (
                f"tensor `{entry.name}` at {entry.begin} overlaps `{previous}`, "
                f"which ends at {end}"
            )
            _bad(where, "E_ST_OVERLAP", message)
        end, previous = entry.begin + entry.nbytes, entry.name
    if end > available:
        message = f"header promises {end} bytes of data, file has {available}"
        _bad(where, "E_ST_TRUNCATED", message, hint=_AGAIN)
    if end < available:
        _bad(where, "E_ST_TRAILING", f"{available - end} bytes after the last tensor")


_AGAIN: Final = "The download is incomplete: fetch the file again"
_MALFORMED: Final = "The file does not follow the safetensors format: fetch or save it again"


def _bad(where: str, code: str, message: str, hint: str = _MALFORMED) -> NoReturn:
    raise InputError(f"{where}: {message}", code=code, hint=hint)
