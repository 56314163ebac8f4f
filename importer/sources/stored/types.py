"""The type of a stored tensor that is not plain, and the shape of what it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from importer.codecs.spec import QUANT_TYPES, Mode, QuantSpec
from store.tensorblob import SCALE, BlobTensor

if TYPE_CHECKING:
    from importer.codecs.ggml.types import GgmlType

_WORD: Final = 32
_FLOATS: Final = tuple(spec for spec in QUANT_TYPES.values() if spec.mode is not Mode.AFFINE)
# Where nothing says it, as Ollama's runner does: the first whose group size fits.
_INFERRED: Final = (("int4", 32), ("int8", 64), ("int4", 64), ("int8", 32), ("int8", 128))


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


def quantized_shape(tensor: BlobTensor, spec: QuantSpec) -> tuple[int, ...]:
    """Return the logical shape of a tensor of packed words."""
    *outer, words = tensor.weight.shape
    return (*outer, words * _WORD // spec.bits)


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
