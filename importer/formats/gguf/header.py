"""The header of a GGUF file: metadata, and for each tensor its type, shape and place."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from importer.codecs.ggml.types import GGML_TYPES, REMOVED, GgmlType
from importer.formats.content import other_content
from importer.formats.gguf.metadata import Metadata, MetadataReader, Value
from importer.formats.gguf.problems import malformed, truncated, unread
from importer.formats.gguf.stream import Stream
from importer.formats.window import ReadRange
from store import limits
from store.text import is_printable, printable

MAGIC: Final = b"GGUF"
ALIGNMENT: Final = "general.alignment"
_VERSIONS: Final = (2, 3)
_HEAD: Final = 512
_RANK: Final = 4
_ALIGNMENT: Final = 32
_LEAST_INFO: Final = 8 + 4 + 4 + 8
"""Bytes of a tensor's entry with an empty name and no dimensions."""


class TensorInfo(NamedTuple):
    """A tensor, and where it is.

    Attributes:
        shape: in elements, outermost dimension first, as numpy has it: the file lists the
            innermost first.
        offset: in the file, of the first byte.
        nbytes: of the data, without padding.
    """

    name: str
    kind: GgmlType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class Header(NamedTuple):
    """What a file says of itself and its tensors.

    Attributes:
        version: of the format, 2 or 3.
        is_big: whether numbers are big-endian, those of the tensors included.
        alignment: of each tensor's data, in bytes.
        tensors: in the order of the file's list.
        end: offset of the first byte after all data, without padding.
    """

    version: int
    is_big: bool
    alignment: int
    metadata: Metadata
    tensors: tuple[TensorInfo, ...]
    end: int

    def text(self, key: str) -> str:
        """Return a string of the metadata, or an empty one where there is none."""
        found = self.metadata.get(key)
        value = found.value if isinstance(found, Value) else None
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int | None:
        """Return an integer of the metadata, of any width, or None where there is none."""
        found = self.metadata.get(key)
        return found.integer if isinstance(found, Value) else None


def is_gguf(head: bytes) -> bool:
    """Return whether a file is GGUF, by its first bytes."""
    return head.startswith(MAGIC)


def read_header(where: str, size: int, read: ReadRange) -> Header:
    """Read the header of a file, strictly; read no weight.

    Layout (the GGUF specification in ggml's docs/gguf.md): magic, u32 version, u64 count of
    tensors, u64 count of keys, the keys with their values, an entry for each tensor, padding
    to the alignment, data.

    Args:
        where: what to call the file in a message.
        size: of the file, in bytes.
        read: gives bytes of it.

    Raises:
        InputError: it is malformed, truncated, or tensors overlap.
        UnsupportedError: a version, or a type of tensors, that is not read.
    """
    stream, version = _start(where, size, read)
    tensors, keys = stream.number("Q"), stream.number("Q")
    if tensors > limits.TENSORS_PER_FILE:
        message = f"{tensors} tensors, the limit is {limits.TENSORS_PER_FILE}"
        malformed(where, message, "E_LIMIT")
    metadata = MetadataReader(stream).read(keys)
    alignment = _alignment(where, metadata)
    if tensors * _LEAST_INFO > stream.left:
        truncated(where, f"{tensors} tensors are listed in {stream.left} bytes")
    infos = [_info(stream, alignment) for _ in range(tensors)]
    start = -(-stream.position // alignment) * alignment
    placed = tuple(info._replace(offset=start + info.offset) for info in infos)
    end = _check_places(where, placed, size)
    return Header(version, stream.order == ">", alignment, metadata, placed, end or start)


def _start(where: str, size: int, read: ReadRange) -> tuple[Stream, int]:
    head = read(0, min(_HEAD, size))
    if not is_gguf(head):
        raise other_content(where, head, "a GGUF file", "E_GGUF_CONTENT")
    stream = Stream(read, size, where, start=len(MAGIC))
    version = stream.number("I")
    if version & 0xFFFF == 0 and version:
        stream.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in _VERSIONS:
        unread(where, f"it is GGUF of version {version}, expected 2 or 3", "E_GGUF_VERSION")
    return stream, version


def _alignment(where: str, metadata: Metadata) -> int:
    found = metadata.get(ALIGNMENT)
    if found is None:
        return _ALIGNMENT
    value = found.integer if isinstance(found, Value) and found.kind == "u32" else None
    if value is None or value < 1 or value & (value - 1):
        shown = found.value if isinstance(found, Value) else "an array"
        malformed(
            where,
            f"`{ALIGNMENT}` is {printable(str(shown))} ({found.kind}), expected a power of "
            "two (u32)",
            "E_GGUF_ALIGNMENT",
        )
    return value


def _info(stream: Stream, alignment: int) -> TensorInfo:
    """Read a tensor's entry; its offset counts from the start of the data."""
    where = stream.where
    name = _name(stream)
    rank = stream.number("I")
    if rank > _RANK:
        unread(where, f"`{name}` has {rank} dimensions, expected at most {_RANK}")
    shape = tuple(stream.number("Q") for _ in range(rank))[::-1]
    kind = _kind(where, name, stream.number("I"))
    offset = stream.number("Q")
    largest = max(math.prod(max(side, 1) for side in shape), *shape, 1)
    if largest * kind.nbytes > limits.DIMENSION:
        malformed(where, f"`{name}` {list(shape)} is larger than any file", "E_GGUF_SHAPE")
    columns = shape[-1] if shape else 1
    if columns % kind.elements:
        malformed(
            where,
            f"`{name}` has rows of {columns} elements, {kind.name} needs a multiple of "
            f"{kind.elements}",
            "E_GGUF_SHAPE",
        )
    if offset % alignment:
        malformed(
            where,
            f"`{name}` begins at byte {offset} of the data, expected a multiple of {alignment}",
            "E_GGUF_ALIGNMENT",
        )
    nbytes = math.prod(shape) // kind.elements * kind.nbytes
    return TensorInfo(name, kind, shape, offset, nbytes)


def _name(stream: Stream) -> str:
    length = stream.number("Q")
    if not 0 < length <= limits.TENSOR_NAME_BYTES:
        message = (
            f"a tensor's name has {length} bytes, expected 1 to {limits.TENSOR_NAME_BYTES}"
        )
        malformed(stream.where, message, "E_GGUF_NAME")
    data = stream.take(length)
    try:
        name = data.decode()
    except UnicodeDecodeError:
        malformed(stream.where, "a tensor's name is not UTF-8", "E_GGUF_UTF8")
    if not is_printable(name):
        message = f"the tensor name `{printable(name)}` is not printable"
        malformed(stream.where, message, "E_GGUF_NAME")
    return name


def _kind(where: str, name: str, number: int) -> GgmlType:
    kind = GGML_TYPES.get(number)
    if kind is None:
        was = f", which was {REMOVED[number]} once" if number in REMOVED else ""
        message = f"`{name}` has the type {number}{was}, which ingot does not know"
        unread(where, message, "E_GGUF_TYPE")
    return kind


def _check_places(where: str, tensors: tuple[TensorInfo, ...], size: int) -> int:
    """Check that names differ and that data is in the file and apart; return where it ends."""
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            malformed(where, f"it has two tensors `{tensor.name}`", "E_GGUF_DUPLICATE")
        seen.add(tensor.name)
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda one: (one.offset, one.nbytes)):
        if tensor.nbytes and tensor.offset < end:
            message = f"`{tensor.name}` begins before `{before}` ends"
            malformed(where, message, "E_GGUF_OVERLAP")
        stop = tensor.offset + tensor.nbytes
        if stop > size:
            truncated(where, f"`{tensor.name}` ends at byte {stop}, the file has {size}")
        if tensor.nbytes:
            end, before = stop, tensor.name
    return end
