"""The tensors of a stored model, from manifest and headers, with their logical shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from store import Digest, Layer, Store
from store.errors import IntegrityError
from store.status import Kind
from store.tensorblob import (
    SCALE,
    BlobTensor,
    plain_header_bytes,
    plain_keys,
    read_header,
    read_tensors,
)
from store.tensorfile import ITEM_BITS, data_bytes

_SURE: Final = 64
"""Headers that a matrix weighs up before its size tells that it is plain. Quantizing a smaller
one may save as many bytes as it adds to the header: it saves an eighth and more, and adds two
entries and some metadata."""


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
    for tensor in read_tensors(layer.name, header):
        yield _stored(layer, tensor, header.nbytes)


def _plain(layer: Layer) -> StoredTensor | None:
    dtype, shape = layer.dtype, layer.shape
    if dtype is None or shape is None or dtype not in ITEM_BITS:
        return None
    nbytes = data_bytes(dtype, shape)
    if layer.size < nbytes:  # quantized, most likely
        return None
    for key in plain_keys(layer.name):
        header = plain_header_bytes(key, dtype, shape, nbytes)
        if layer.size == header + nbytes:
            break
    else:
        return None
    if len(shape) > 1 and nbytes < _SURE * header:
        return None
    return StoredTensor(
        layer.name, dtype, shape, None, None, nbytes, layer.name, layer.digest, None
    )


def _stored(layer: Layer, tensor: BlobTensor, start: int) -> StoredTensor:
    from importer.sources.stored.types import (  # noqa: PLC0415 - `show` starts quickly
        block_shape,
        block_type,
        quantized_shape,
        stored_type,
    )

    weight = tensor.weight
    dtype, shape, quant, group_size = weight.dtype, weight.shape, None, None
    if tensor.is_quantized:
        spec = stored_type(tensor)
        quant, group_size = spec.name, spec.group_size
        shape = quantized_shape(tensor, spec)
        dtype = layer.dtype or (tensor.parts[SCALE].dtype if spec.has_bias else dtype)
    elif tensor.is_blocks:
        quant, kind = tensor.quant_type, block_type(tensor)
        if kind is not None:
            shape, dtype = block_shape(tensor, kind), "F32"
    return StoredTensor(
        tensor.name,
        dtype,
        shape,
        quant,
        group_size,
        tensor.nbytes,
        layer.name,
        layer.digest,
        start + weight.begin,
    )
