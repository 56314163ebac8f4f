"""The tensors of a stored model, from manifest and headers, with their logical shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from importer.codecs.spec import QUANT_TYPES, Mode, QuantSpec
from store import Digest, Layer, Store
from store.errors import IntegrityError
from store.fs import Kind
from store.tensorblob import read_header
from store.tensorfile import ITEM_BITS, Header, TensorEntry, data_bytes, encode_header

_SCALE: Final = ".scale"
_COMPANIONS: Final = (".scale", ".bias", ".global_scale")
_WORD: Final = 32
_DIGITS: Final = 10
"""Of a group size that makes sense; Python refuses to read 4301."""
# Where nothing says it, as Ollama's runner does: the first whose group size fits.
_INFERRED: Final = (("int4", 32), ("int8", 64), ("int4", 64), ("int8", 32), ("int8", 128))


class StoredTensor(NamedTuple):
    """A tensor of a stored model.

    Attributes:
        dtype: of the weights as they are stored, or of the source where the layer says it.
        shape: logical: of what the tensor stands for, not of packed words.
        quant: its quantization type, or None.
        group_size: elements that share a scale, or None.
        nbytes: of the weights and everything that belongs to them.
        layer: whose blob it is in.
        digest: of the blob.
        offset: of the first part's data in the blob's file, or None where the header was
            not read.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    quant: str | None
    group_size: int | None
    nbytes: int
    layer: str
    digest: Digest
    offset: int | None

    @property
    def type_name(self) -> str:
        """The quantization type, or the dtype."""
        return self.quant or self.dtype


def read_layer(store: Store, layer: Layer, *, headers: bool = False) -> Iterator[StoredTensor]:
    """List the tensors of one layer.

    The header of a plain tensor's blob follows from the layer, to the byte, so it is read
    only when asked for: `show` is as quick for a thousand tensors as for one.

    Args:
        headers: read every header.

    Raises:
        IntegrityError: the blob is missing or of another size.
        InputError: its header is malformed.
    """
    seen = store.blobs.status(layer.digest)
    if seen is None or seen.kind is not Kind.FILE or seen.size != layer.size:
        raise IntegrityError(
            f"blob {layer.digest} of `{layer.name}` is missing or has another size",
            code="E_BLOB_MISSING",
        )
    if not headers and (plain := _plain(layer)) is not None:
        yield plain
        return
    with store.blobs.open(layer.digest) as file:
        header = read_header(store, file, seen.size, f"blob {layer.digest}")
    yield from _tensors(layer, header)


def _plain(layer: Layer) -> StoredTensor | None:
    dtype, shape = layer.dtype, layer.shape
    if dtype is None or shape is None or dtype not in ITEM_BITS:
        return None
    nbytes = data_bytes(dtype, shape)
    if layer.size != len(encode_header([(layer.name, dtype, shape, nbytes)])) + nbytes:
        return None
    return StoredTensor(
        layer.name, dtype, shape, None, None, nbytes, layer.name, layer.digest, None
    )


def _tensors(layer: Layer, header: Header) -> Iterator[StoredTensor]:
    entries = {entry.name: entry for entry in header.entries}
    quantized = {
        name.removesuffix(_SCALE)
        for name in entries
        if name.endswith(_SCALE) and _is_packed(entries.get(name.removesuffix(_SCALE)))
    }
    companions = {name + suffix for name in quantized for suffix in _COMPANIONS}
    for entry in header.entries:
        if entry.name in companions:
            continue
        # `data` is the single key of an older form of the format.
        name = layer.name if entry.name == "data" and len(entries) == 1 else entry.name
        dtype, shape, quant, group_size = entry.dtype, entry.shape, None, None
        nbytes = entry.nbytes
        if entry.name in quantized:
            scale = entries[entry.name + _SCALE]
            spec = _spec(entry, scale, header.metadata)
            quant, group_size = spec.name, spec.group_size
            shape = (*entry.shape[:-1], entry.shape[-1] * _WORD // spec.bits)
            dtype = layer.dtype or (scale.dtype if spec.has_bias else entry.dtype)
            parts = (entries.get(entry.name + suffix) for suffix in _COMPANIONS)
            nbytes += sum(part.nbytes for part in parts if part is not None)
        yield StoredTensor(
            name,
            dtype,
            shape,
            quant,
            group_size,
            nbytes,
            layer.name,
            layer.digest,
            header.nbytes + entry.begin,
        )


def _is_packed(entry: TensorEntry | None) -> bool:
    # A plain tensor of a group may have a neighbour called `.scale`.
    return entry is not None and entry.dtype == "U32" and bool(entry.shape)


def _spec(weight: TensorEntry, scale: TensorEntry, metadata: Mapping[str, str]) -> QuantSpec:
    name = metadata.get(f"{weight.name}.quant_type") or metadata.get("quant_type")
    size = metadata.get(f"{weight.name}.group_size") or metadata.get("group_size") or ""
    if name is not None and name in QUANT_TYPES:
        spec = QUANT_TYPES[name]
        is_number = size.isascii() and size.isdigit() and len(size) < _DIGITS
        group_size = int(size) if is_number else spec.group_size
        return QuantSpec(spec.name, spec.mode, spec.bits, group_size)
    words, scales = (entry.shape[-1] if entry.shape else 0 for entry in (weight, scale))
    if scale.dtype == "U8":
        guesses = [(spec.name, spec.group_size) for spec in _FLOATS]
    else:
        guesses = list(_INFERRED)
    for guess, group_size in guesses:
        spec = QUANT_TYPES[guess]
        if words * _WORD == scales * group_size * spec.bits:
            return QuantSpec(spec.name, spec.mode, spec.bits, group_size)
    return QuantSpec("unknown", Mode.AFFINE, 8, 0)


_FLOATS: Final = tuple(spec for spec in QUANT_TYPES.values() if spec.mode is not Mode.AFFINE)
