"""The arrays of GPTQ and AWQ, and which of them belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

QWEIGHT: Final = "qweight"
QZEROS: Final = "qzeros"
SCALES: Final = "scales"
G_IDX: Final = "g_idx"
PACKED: Final = frozenset({"I32", "I16", "I8", "I64", "U8", "U32"})
"""Dtypes of codes, whether they are decoded or not."""


class Arrays(NamedTuple):
    """The arrays of one linear layer.

    Attributes:
        stem: of their names, which is the layer's.
        g_idx: the group of each column, if there is one.
    """

    stem: str
    qweight: SourceTensor
    qzeros: SourceTensor | None
    scales: SourceTensor | None
    g_idx: SourceTensor | None


def layers_of(tensors: Sequence[SourceTensor]) -> Iterator[Arrays]:
    """Yield the arrays of each layer that has packed codes."""
    packed = [
        tensor
        for tensor in tensors
        if tensor.name.rpartition(".")[2] == QWEIGHT and tensor.arrays[0].dtype in PACKED
    ]
    if not packed:
        return
    by_name = {tensor.name: tensor for tensor in tensors}
    for qweight in packed:
        stem = qweight.name.removesuffix(QWEIGHT)
        others = (by_name.get(stem + part) for part in (QZEROS, SCALES, G_IDX))
        yield Arrays(stem.removesuffix("."), qweight, *others)
