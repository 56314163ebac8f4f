"""Write what stands before the weights of a GGUF file: keys, and where tensors are."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from importer.formats.gguf.metadata import KIND_NUMBERS, Scalar, Value, number_code

ALIGNMENT: Final = 32
"""Bytes that the data of every tensor begins at a multiple of."""
_MAGIC: Final = b"GGUF"
_VERSION: Final = 3


class Values(NamedTuple):
    """An array that is to be written.

    Attributes:
        kind: of the elements, as `Value.kind`; `string` for text.
    """

    kind: str
    elements: Sequence[Scalar]


class TensorInfo(NamedTuple):
    """A tensor of a file.

    Attributes:
        shape: in elements, outermost dimension first.
        kind: number of its type.
        nbytes: of its data, without padding.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    nbytes: int


def padded(nbytes: int) -> int:
    """Return a size, rounded up to where the next tensor may begin."""
    return nbytes + -nbytes % ALIGNMENT


def encode_head(metadata: Mapping[str, Value | Values], tensors: Sequence[TensorInfo]) -> bytes:
    """Return the bytes before the first weight, padding included.

    The data of each tensor follows that of the one before, padded to 32 bytes.

    Args:
        metadata: in the order of the file.
        tensors: likewise.
    """
    made = bytearray(_MAGIC)
    made += struct.pack("<IQQ", _VERSION, len(tensors), len(metadata))
    for key, value in metadata.items():
        made += _text(key)
        made += _array(value) if isinstance(value, Values) else _scalar(value)
    offset = 0
    for info in tensors:
        made += _text(info.name)
        made += struct.pack("<I", len(info.shape))
        made += struct.pack(f"<{len(info.shape)}Q", *reversed(info.shape))
        made += struct.pack("<IQ", info.kind, offset)
        offset += padded(info.nbytes)
    return bytes(made).ljust(padded(len(made)), b"\0")


def _scalar(value: Value) -> bytes:
    kind = struct.pack("<I", KIND_NUMBERS[value.kind])
    if value.kind == "string":
        return kind + _text(str(value.value))
    return kind + struct.pack(f"<{number_code(value.kind)}", value.value)


def _array(values: Values) -> bytes:
    head = struct.pack(
        "<IIQ", KIND_NUMBERS["array"], KIND_NUMBERS[values.kind], len(values.elements)
    )
    if values.kind == "string":
        return head + b"".join(_text(str(element)) for element in values.elements)
    code = number_code(values.kind)
    return head + struct.pack(f"<{len(values.elements)}{code}", *values.elements)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
