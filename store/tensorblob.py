"""The dialect of a tensor blob: how parts, metadata and tensors are named, written and read.

A blob is a safetensors container with one tensor, or with the tensors of a group
(docs/formats/blobs.md). The store knows the names and nothing of what they mean: quantization
types are words here, and group sizes numbers.

A layer is named with its component (`text_encoder/w`), a key in the blob without (`w`), so that
a blob is the same wherever its tensors are used. What is read is named with the component.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from store import tensorfile
from store.fs import File
from store.json import dumps
from store.text import printable

if TYPE_CHECKING:
    from store.manifest import Layer
    from store.store import Store

WEIGHT: Final = ""
SCALE: Final = ".scale"
BIAS: Final = ".bias"
GLOBAL_SCALE: Final = ".global_scale"
PARTS: Final = (WEIGHT, SCALE, BIAS, GLOBAL_SCALE)
"""What is put after a tensor's name for each of its arrays, in the order of the file."""

PACKED_DTYPE: Final = "U32"
"""Of quantized weights: words that hold several elements each."""

BLOCK_DTYPE: Final = "U8"
"""Of blocks of codes and scales, `[..., rows, bytes of a row]`: the type is declared alone."""

_QUANT_TYPE: Final = "quant_type"
_GROUP_SIZE: Final = "group_size"
_OLD_KEY: Final = "data"
_DIGITS: Final = 10
"""Of a group size that makes sense; Python refuses to read 4301."""
_DEPTH: Final = 8
"""Directories of a component, at most, whose names `plain_keys` takes from a layer's name."""


QuantFacts = tuple[str, int | None]
"""A quantization type, and its group size where it has one to be told."""


class BlobTensor(NamedTuple):
    """A tensor of a blob.

    Attributes:
        name: in the model, with its component.
        parts: its arrays, by what their keys have after that of the weights (`PARTS`).
        quant_type: that the blob declares for quantized weights, or None.
        group_size: likewise.
    """

    name: str
    parts: Mapping[str, tensorfile.TensorEntry]
    quant_type: str | None = None
    group_size: int | None = None

    @property
    def weight(self) -> tensorfile.TensorEntry:
        """The weights themselves."""
        return self.parts[WEIGHT]

    @property
    def is_quantized(self) -> bool:
        """Whether the weights are packed words with scales."""
        return SCALE in self.parts

    @property
    def is_blocks(self) -> bool:
        """Whether the weights are blocks of bytes, of a type that the blob declares."""
        return self.quant_type is not None and not self.is_quantized

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts.values())


def quant_metadata(members: Iterable[tuple[str, QuantFacts | None]]) -> dict[str, str]:
    """Write the metadata of a blob.

    A single tensor is described by two global keys. In a group each quantized member is
    described by keys of its own, and the global ones are added where they hold for all: there
    are readers that know no others.

    Example:
        >>> quant_metadata([("e.0.w", ("int4", 32)), ("e.1.w", None)])
        {'e.0.w.quant_type': 'int4', 'e.0.w.group_size': '32'}

    Args:
        members: key of each tensor, and its quantization type and group size, or None where
            it is not quantized. Types of blocks have no group size.
    """
    found = dict(members)
    quantized = {key: quant for key, quant in found.items() if quant is not None}
    metadata: dict[str, str] = {}
    if len(found) > 1:
        for key, quant in quantized.items():
            metadata |= _facts(f"{key}.", quant)
    if len(quantized) == len(found) and len(alike := set(quantized.values())) == 1:
        metadata |= _facts("", alike.pop())
    return metadata


def _facts(prefix: str, quant: QuantFacts) -> dict[str, str]:
    quant_type, group_size = quant
    found = {prefix + _QUANT_TYPE: quant_type}
    if group_size is not None:
        found[prefix + _GROUP_SIZE] = str(group_size)
    return found


def read_tensors(layer: str, header: tensorfile.Header) -> Iterator[BlobTensor]:
    """Read the tensors of a blob from its header, in the order of their weights' data.

    Keys may also have the component in front, and the key of a single tensor may be `data`:
    older forms of the format. A key that does not belong to the layer is the tensor's name.

    Args:
        layer: name of the layer whose blob it is; it tells the component.
        header: of the blob.
    """
    entries = {entry.name: entry for entry in header.entries}
    quantized = {
        key
        for key, entry in entries.items()
        # A plain tensor may have a neighbour called `.scale`.
        if key + SCALE in entries and entry.dtype == PACKED_DTYPE and entry.shape
    }
    beside = {key + suffix for key in quantized for suffix in PARTS if suffix}
    own = _own_name(layer, header)
    for key, entry in entries.items():
        if key in beside:
            continue
        name = layer + key.removeprefix(own) if _belongs(key, own) else key
        if key in quantized:
            found = ((suffix, entries.get(key + suffix)) for suffix in PARTS)
            parts = {suffix: part for suffix, part in found if part is not None}
            yield BlobTensor(name, parts, *declared_type(key, header.metadata))
        elif entry.dtype == BLOCK_DTYPE and entry.shape:
            declared, group_size = declared_type(key, header.metadata)
            # With a group size it is said of others: a plain neighbour of packed words.
            yield BlobTensor(name, {WEIGHT: entry}, declared if group_size is None else None)
        else:
            yield BlobTensor(name, {WEIGHT: entry})


def _own_name(layer: str, header: tensorfile.Header) -> str:
    """The layer's name as keys begin with it: without the component, or as it is."""
    key = header.entries[0].name if header.entries else ""
    if key == _OLD_KEY and len(header.entries) == 1:
        return key
    # Along the key, whose length is limited, and not along the name.
    end = len(key)
    while end > 0:
        own = key[:end]
        if layer == own or layer.endswith(f"/{own}"):
            return own
        end = key.rfind(".", 0, end)
    return layer


def _belongs(key: str, own: str) -> bool:
    return key == own or key.startswith(f"{own}.")


def declared_type(key: str, metadata: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the quantization type and group size that metadata declares for a key."""
    quant_type = metadata.get(f"{key}.{_QUANT_TYPE}") or metadata.get(_QUANT_TYPE)
    size = metadata.get(f"{key}.{_GROUP_SIZE}") or metadata.get(_GROUP_SIZE) or ""
    is_number = size.isascii() and size.isdigit() and len(size) < _DIGITS
    return quant_type, int(size) if is_number else None


def plain_keys(layer: str) -> Iterator[str]:
    """Yield the keys that a plain tensor may have in its blob, given the layer's name."""
    yield layer
    for _ in range(_DEPTH):
        _, slash, layer = layer.partition("/")
        if not slash:
            return
        yield layer


def plain_header_bytes(key: str, dtype: str, shape: tuple[int, ...], nbytes: int) -> int:
    """Return the size of the header of a plain tensor's blob.

    Args:
        nbytes: of its data.
    """
    text = len(dumps(key)) + _bytes_beside_key(dtype, shape, nbytes)
    return tensorfile.LENGTH_BYTES + text + -text % tensorfile.ALIGNMENT


@functools.lru_cache(1024)  # layers are alike: 174 tensors of a llama have 8 such texts
def _bytes_beside_key(dtype: str, shape: tuple[int, ...], nbytes: int) -> int:
    header = tensorfile.encode_header([("", dtype, shape, nbytes)])
    return len(header[tensorfile.LENGTH_BYTES :].rstrip(b" ")) - len(dumps(""))


def read_header(store: Store, file: File, size: int, where: str) -> tensorfile.Header:
    """Read the header of a blob of `size` bytes.

    Raises:
        InputError: it is malformed; the message begins with `where`.
    """
    prefix = store.fs.read(file, tensorfile.LENGTH_BYTES, 0)
    length = tensorfile.header_length(prefix, size, where)
    text = store.fs.read(file, length, tensorfile.LENGTH_BYTES)
    return tensorfile.parse_header(text, size, where)


def layer_mismatches(layer: Layer, header: tensorfile.Header) -> Iterator[str]:
    """Compare what a manifest says of a tensor layer with the blob's header."""
    shown = printable(layer.name)
    own = _own_name(layer.name, header)
    tensors = list(read_tensors(layer.name, header))
    strays = [t.weight.name for t in tensors if not _belongs(t.weight.name, own)]
    main = next((tensor for tensor in tensors if tensor.name == layer.name), None)
    if main is None:
        if strays or not tensors:
            yield f"layer `{shown}` has a blob with the tensors {sorted(strays)[:3]}"
        return
    if strays:
        yield f"layer `{shown}` has a blob with tensors of other names"
    weight = main.weight
    if main.is_blocks:
        if layer.shape is not None and layer.shape[:-1] != weight.shape[:-1]:
            expected, found = list(layer.shape), list(weight.shape)
            yield f"layer `{shown}` says {expected}, its blob has blocks of {found}"
    elif weight.dtype != PACKED_DTYPE and len(header.entries) == 1:
        if layer.dtype not in {None, weight.dtype}:
            yield f"layer `{shown}` says {printable(str(layer.dtype))}, its blob {weight.dtype}"
        if layer.shape not in {None, weight.shape}:
            expected, found = list(layer.shape or ()), list(weight.shape)
            yield f"layer `{shown}` says {expected}, its blob {found}"
