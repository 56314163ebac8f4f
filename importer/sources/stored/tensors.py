"""The tensors of a stored model, from manifest and headers, with their logical shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.spec import QUANT_TYPES, Mode, QuantSpec
from store import Digest, Layer, Store
from store.errors import IntegrityError
from store.status import Kind
from store.tensorblob import SCALE, BlobTensor, plain_keys, read_header, read_tensors
from store.tensorfile import ITEM_BITS, data_bytes, encode_header

if TYPE_CHECKING:
    from importer.codecs.ggml.types import GgmlType

_WORD: Final = 32
_SURE: Final = 64
"""Headers that a matrix weighs up before its size tells that it is plain. Quantizing a smaller
one may save as many bytes as it adds to the header: it saves an eighth and more, and adds two
entries and some metadata."""
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
    for tensor in read_tensors(layer.name, header):
        yield _stored(layer, tensor, header.nbytes)


def _plain(layer: Layer) -> StoredTensor | None:
    dtype, shape = layer.dtype, layer.shape
    if dtype is None or shape is None or dtype not in ITEM_BITS:
        return None
    nbytes = data_bytes(dtype, shape)
    if layer.size < nbytes:  # quantized, most likely
        return None
    headers = [encode_header([(key, dtype, shape, nbytes)]) for key in plain_keys(layer.name)]
    if all(layer.size != len(header) + nbytes for header in headers):
        return None
    if len(shape) > 1 and nbytes < _SURE * len(headers[0]):
        return None
    return StoredTensor(
        layer.name, dtype, shape, None, None, nbytes, layer.name, layer.digest, None
    )


def _stored(layer: Layer, tensor: BlobTensor, start: int) -> StoredTensor:
    weight = tensor.weight
    dtype, shape, quant, group_size = weight.dtype, weight.shape, None, None
    if tensor.is_quantized:
        spec = stored_type(tensor)
        quant, group_size = spec.name, spec.group_size
        shape = (*shape[:-1], shape[-1] * _WORD // spec.bits)
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


def block_type(tensor: BlobTensor) -> GgmlType | None:
    """Return the type of a tensor's blocks, or None where it is not known or does not fit."""
    from importer.codecs.ggml.types import NAMED  # noqa: PLC0415 - few models have blocks

    kind = NAMED.get(tensor.quant_type or "")
    if kind is None or kind.is_plain or tensor.weight.shape[-1] % kind.nbytes:
        return None
    return kind


def block_shape(tensor: BlobTensor, kind: GgmlType) -> tuple[int, ...]:
    """Return the logical shape of a tensor of blocks."""
    *outer, nbytes = tensor.weight.shape
    return (*outer, nbytes // kind.nbytes * kind.elements)


def stored_type(tensor: BlobTensor) -> QuantSpec:
    """Return the quantization type of a tensor: as declared, else guessed from its shapes.

    A type that is not known has the name `unknown`.
    """
    weight, scale = tensor.weight, tensor.parts[SCALE]
    if tensor.quant_type is not None and tensor.quant_type in QUANT_TYPES:
        spec = QUANT_TYPES[tensor.quant_type]
        if tensor.group_size in {None, spec.group_size}:
            return spec
        return spec._replace(group_size=tensor.group_size)
    words, scales = (entry.shape[-1] if entry.shape else 0 for entry in (weight, scale))
    if scale.dtype == "U8":
        guesses = [(spec.name, spec.group_size) for spec in _FLOATS]
    else:
        guesses = list(_INFERRED)
    for guess, group_size in guesses:
        spec = QUANT_TYPES[guess]
        if words * _WORD == scales * group_size * spec.bits:
            return spec._replace(group_size=group_size)
    return QuantSpec("unknown", Mode.AFFINE, 8, 0)


_FLOATS: Final = tuple(spec for spec in QUANT_TYPES.values() if spec.mode is not Mode.AFFINE)
