"""The logical tensors of a stored model whose weights somebody else has quantized."""

from __future__ import annotations

from collections.abc import Sequence

from importer.sources.stored.source import read_stored
from importer.sources.stored.tensors import StoredTensor
from importer.sources.tensor import SourceTensor
from store import ModelName, Store
from store.catalog import StoredManifest
from store.errors import IngotError


def logical_tensors(
    store: Store, name: ModelName | StoredManifest, stored: Sequence[StoredTensor]
) -> tuple[list[StoredTensor], bool]:
    """Return the tensors that a model stands for, and whether all of them are understood.

    A packed tensor has the layer of the first of its arrays, and the bytes of all. Of an array
    that is part of another it has that part.

    Args:
        store: that has the model.
        name: of the model.
        stored: its arrays; they are returned where the model is not understood.

    Example:
        `x.qweight`, `x.qzeros` and `x.scales` become `x.weight`, of type `gptq int4/128`.
    """
    try:
        inventory = read_stored(store, name)
    except (IngotError, OSError):
        return list(stored), False
    if not inventory.is_decoded:
        return list(stored), False
    arrays = {array.name: array for array in stored}
    return [_logical(tensor, arrays) for tensor in inventory.tensors], True


def _logical(tensor: SourceTensor, arrays: dict[str, StoredTensor]) -> StoredTensor:
    whole = arrays.get(tensor.name)
    if whole is not None and (tensor.is_plain or whole.quant is not None):
        return whole
    first = next(tensor.stored())
    return arrays[first.name]._replace(
        name=tensor.name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        quant=tensor.stored_as or None,
        group_size=None,
        nbytes=tensor.nbytes,
    )
