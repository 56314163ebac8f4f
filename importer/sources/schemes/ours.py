"""Files in the form of our own blobs: `X.weight` with `.scale` and `.bias` beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.codecs.spec import QUANT_TYPES, QuantSpec
from store.errors import InputError, UnsupportedError
from store.tensorblob import (
    BIAS,
    BLOCK_DTYPE,
    GLOBAL_SCALE,
    PACKED_DTYPE,
    SCALE,
    declared_type,
)
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

_WORD: Final = 32
_VALUES: Final = "BF16"
"""What types without biases decode to; their scales do not tell."""


def join_ours(
    tensors: Sequence[SourceTensor], metadata: Mapping[str, Mapping[str, str]]
) -> Sequence[SourceTensor]:
    """Make one tensor of the parts of each weight whose type the metadata of its file names.

    Args:
        tensors: every array of a directory, in the order of the files.
        metadata: what each file says about itself, by path.

    Raises:
        InputError: parts are missing, or do not fit the type.
        UnsupportedError: there is no such type.
    """
    if not any(key.endswith("quant_type") for told in metadata.values() for key in told):
        return tensors
    by_name = {tensor.name: tensor for tensor in tensors}
    made: dict[str, SourceTensor | None] = {}
    for weight in tensors:
        if weight.arrays[0].dtype == PACKED_DTYPE and weight.name + SCALE in by_name:
            told = metadata.get(weight.file.path, {})
            made |= _joined(weight, by_name, *declared_type(weight.arrays[0].name, told))
        elif weight.arrays[0].dtype == BLOCK_DTYPE and weight.shape:
            told = metadata.get(weight.file.path, {})
            kind, group_size = declared_type(weight.arrays[0].name, told)
            if kind is not None and group_size is None and weight.is_plain:
                made[weight.name] = _of_blocks(weight, kind)
    joined = (made.get(tensor.name, tensor) for tensor in tensors)
    return [tensor for tensor in joined if tensor is not None]


def _joined(
    weight: SourceTensor,
    by_name: Mapping[str, SourceTensor],
    quant_type: str | None,
    group_size: int | None,
) -> Iterator[tuple[str, SourceTensor | None]]:
    """Yield what the tensor of each array becomes, None where it is a part of another."""
    if quant_type is None:
        return
    if quant_type not in QUANT_TYPES:
        raise _unknown(weight, quant_type)
    spec = QUANT_TYPES[quant_type]
    if group_size is not None:
        spec = spec._replace(group_size=group_size)
    suffixes = [SCALE, BIAS] if spec.has_bias else [SCALE]
    if weight.name + GLOBAL_SCALE in by_name:
        if spec != QUANT_TYPES["nvfp4"]:
            return
        suffixes.append(GLOBAL_SCALE)
    found = [by_name.get(weight.name + suffix) for suffix in suffixes]
    parts = [weight, *(tensor for tensor in found if tensor is not None)]
    whole = _tensor(weight, spec, parts)
    if len(parts) <= len(suffixes) or whole is None:
        shapes = ", ".join(f"{part.dtype} {list(part.shape)}" for part in parts)
        raise InputError(
            f"`{weight.file.path}`: `{printable(weight.name)}` ({shapes}) is not {spec.name} "
            f"in groups of {spec.group_size}, as the file says",
            code="E_QUANT_PAIR",
        )
    yield weight.name, whole
    for part in parts[1:]:
        yield part.name, None


def _of_blocks(weight: SourceTensor, name: str) -> SourceTensor:
    """Return the tensor of an array of blocks."""
    from importer.codecs.ggml.decoder import Ggml  # noqa: PLC0415 - as above
    from importer.codecs.ggml.types import NAMED  # noqa: PLC0415

    kind = NAMED.get(name)
    if kind is None or kind.is_plain:
        raise _unknown(weight, name)
    *outer, nbytes = weight.shape
    if nbytes % kind.nbytes:
        raise InputError(
            f"`{weight.file.path}`: `{printable(weight.name)}` has rows of {nbytes} bytes, "
            f"{name} needs a multiple of {kind.nbytes}",
            code="E_QUANT_PAIR",
        )
    shape = (*outer, nbytes // kind.nbytes * kind.elements)
    return weight._replace(shape=shape, decoder=Ggml(name))


def _unknown(weight: SourceTensor, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"`{printable(weight.name)}` is quantized to `{printable(name)}`, which cannot be read",
        code="E_FORMAT",
    )


def _tensor(
    weight: SourceTensor, spec: QuantSpec, parts: Sequence[SourceTensor]
) -> SourceTensor | None:
    """Return the tensor of some parts, or None where they are not those of its type."""
    from importer.codecs.registry import codec_for  # noqa: PLC0415
    from importer.codecs.scaled.global_scaled import GlobalNvfp4  # noqa: PLC0415 - as above
    from importer.sources.tensor import SourceTensor  # noqa: PLC0415

    arrays = tuple(part.arrays[0] for part in parts)
    if not weight.shape:
        return None
    shape = (*weight.shape[:-1], weight.shape[-1] * _WORD // spec.bits)
    is_scaled = parts[-1].name == weight.name + GLOBAL_SCALE
    values = arrays[1].dtype if spec.has_bias else _VALUES
    codec = GlobalNvfp4() if is_scaled else codec_for(spec, values)
    if shape[-1] % spec.group_size:
        return None
    expected = [(part.dtype, part.shape) for part in codec.parts(shape)]
    if expected != [(array.dtype, array.shape) for array in arrays]:
        return None
    return SourceTensor(weight.name, shape, arrays, codec, weight.component)
