"""Make tensors of UQFF's layers: each family's arrays, checked against each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from importer.codecs.base import Decoder
from importer.codecs.described import Described
from importer.formats.uqff.layers import FORMS, Entry, Layer, read_layers
from importer.formats.uqff.names import is_shard
from importer.formats.uqff.problems import malformed
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.schemes.uqff.families import FAMILIES
from importer.sources.tensor import SourceTensor, StoredArray

_WEIGHT: Final = ".weight"
_TAG: Final = "format"
_BIAS: Final = ".bias"
_BIASES: Final = ("F32", "F16", "BF16", "F8_E4M3")
"""Of what is added; mistral.rs rounds that of a layer in FP8 to E4M3, without a scale."""


def join_layers(tensors: Sequence[SourceTensor]) -> list[SourceTensor]:
    """Make one tensor of the entries of each layer; others stay as they are.

    Raises:
        InputError: a shard's entries are of no layer, or those of a layer contradict each
            other.
        UnsupportedError: a family, or a form of one, that mistral.rs does not read.
    """
    by_name = {tensor.own_name: tensor for tensor in tensors}
    entries = {
        name: Entry(f"`{tensor.file.path}`", tensor.arrays[0].dtype, tensor.arrays[0].shape)
        for name, tensor in by_name.items()
    }
    made: dict[str, SourceTensor | None] = {}
    biases: set[str] = set()
    with _Small({name: tensor.arrays[0] for name, tensor in by_name.items()}) as small:
        for layer in read_layers(entries, small.read):
            tensor = _tensor(layer, by_name)
            _check_bias(layer.key, tensor, by_name, biases)
            weight = layer.key + _WEIGHT
            made |= dict.fromkeys(_names(layer))
            made[weight] = tensor
    for tensor in tensors:
        name = tensor.own_name
        if is_shard(tensor.file.path) and name not in made and name not in biases:
            message = f"`{name}` is of no layer: it has no `.weight.format`"
            malformed(f"`{tensor.file.path}`", message)
    joined = (made.get(tensor.own_name, tensor) for tensor in tensors)
    return [tensor for tensor in joined if tensor is not None]


def _names(layer: Layer) -> Iterator[str]:
    """Yield the names of a layer's entries: data, arrays, numbers, the tag."""
    form = FORMS[layer.family]
    weight = layer.key + _WEIGHT
    yield weight
    for suffix in (*form.arrays, *form.numbers, _TAG):
        yield f"{weight}.{suffix}"


def _tensor(layer: Layer, by_name: Mapping[str, SourceTensor]) -> SourceTensor:
    whole = by_name[layer.key + _WEIGHT]
    arrays = {
        name.removeprefix(f"{layer.key}{_WEIGHT}").removeprefix("."): by_name[name].arrays[0]
        for name in _names(layer)
    }
    found = FAMILIES[layer.family](layer, arrays)
    if found.is_ours:
        return whole._replace(shape=found.shape, arrays=found.arrays, decoder=found.decoder)
    rest = [array for array in arrays.values() if array not in found.arrays]
    decoder: Decoder = Described(found.decoder, tuple(array.nbytes for array in rest))
    return whole._replace(shape=found.shape, arrays=(*found.arrays, *rest), decoder=decoder)


def _check_bias(
    key: str, tensor: SourceTensor, by_name: Mapping[str, SourceTensor], biases: set[str]
) -> None:
    """Refuse what is added to a layer's outputs, where it is not a number for each."""
    bias = by_name.get(key + _BIAS)
    if bias is None:
        return
    biases.add(key + _BIAS)
    rows = tensor.shape[:-1]
    if bias.dtype not in _BIASES or bias.shape not in {rows, rows[-1:]}:
        message = f"`{bias.name}` is {bias.dtype} {list(bias.shape)}, expected {list(rows)}"
        malformed(f"`{bias.file.path}`", message)


class _Small:
    """Reads small arrays; the file of the last one stays open. Use as a context manager."""

    def __init__(self, arrays: Mapping[str, StoredArray]) -> None:
        self._arrays = arrays
        self._stack = contextlib.ExitStack()
        self._file: SourceFile | None = None
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, name: str) -> bytes:
        """Return the bytes of an array by its name."""
        array = self._arrays[name]
        if array.file is not self._file:
            self._stack.close()
            self._descriptor = self._stack.enter_context(opened(array.file))
            self._file = array.file
        end = array.offset + array.nbytes
        return read_bytes(array.file, self._descriptor, array.offset, end)
