"""Take stacks of experts apart again, which the store has made of numbered ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from importer.planning.groups import unstacked
from importer.sources.inventory import Inventory
from importer.sources.tensor import SourceTensor

_STACK: Final = 3
"""Dimensions of a stack of matrices."""


def experts_of(inventory: Inventory, tensor: SourceTensor) -> list[SourceTensor]:
    """Return the experts of a stack that we made, each under its name, or the tensor itself."""
    if not inventory.is_stacked or len(tensor.shape) != _STACK:
        return [tensor]
    keys = unstacked(tensor.own_name, tensor.shape[0])
    if keys is None:
        return [tensor]
    prefix = f"{tensor.component}/" if tensor.component else ""
    return list(sliced(tensor, [prefix + key for key in keys]))


def sliced(tensor: SourceTensor, names: Sequence[str]) -> Iterator[SourceTensor]:
    """Yield the slices of a tensor along its first axis, as tensors of their own.

    Args:
        tensor: whose arrays all have that axis.
        names: one for each slice.
    """
    count = len(names)
    for index, name in enumerate(names):
        arrays = tuple(
            array._replace(
                name=name,
                shape=array.shape[1:],
                offset=array.offset + array.nbytes // count * index,
                nbytes=array.nbytes // count,
            )
            for array in tensor.arrays
        )
        yield tensor._replace(name=name, shape=tensor.shape[1:], arrays=arrays)
