"""Weights that the graph of an ONNX file takes from several tensors: MatMulNBits and QDQ.

Which tensors these are is known to the container alone, so that it is the container that joins
them (ADR 0035); models that have them as arrays are recognized by onnxruntime's names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.schemes.base import Clue
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.formats.onnx.quantized import Quantized
    from importer.sources.tensor import SourceTensor

_CODES: Final = frozenset({"U8", "I8", "U16", "I16"})
_QUANTIZED: Final = "_quantized"
_SUFFIX: Final = re.compile(r"(?P<name>.+)_(quantized|Q[248](G\d+)?)")
"""What onnxruntime's quantizers put after the names of weights."""


class Onnx:
    """What onnxruntime quantizes; `join` leaves it to the container."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array bears the names of codes with scales."""
        if clue.dtype not in _CODES:
            return False
        stem = clue.name.removesuffix(_QUANTIZED)
        is_linear = stem != clue.name and f"{stem}_scale" in clue.dtypes
        return is_linear or (_is_blocks(clue.name) and f"{clue.name}_scales" in clue.dtypes)

    def join(
        self, tensors: Sequence[SourceTensor], _: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Return the arrays as they are."""
        return tensors


def join_weight(
    found: Quantized, tensors: Mapping[str, SourceTensor], where: str
) -> SourceTensor | str:
    """Make the tensor that a node reads, or say why it stays the arrays that it is stored as.

    Args:
        found: what the node says; its tensors are named.
        tensors: of the file, by the names that they have there.
        where: what to call the file in a message.

    Raises:
        InputError: shapes, types and attributes contradict each other.
    """
    from importer.formats.onnx.quantized import Blocks, Computed, Unread  # noqa: PLC0415 - as above
    from importer.sources.schemes.onnx import weights as onnx_weights  # noqa: PLC0415

    if isinstance(found, Unread):
        return f"weights of {found.op} are not decoded"
    if isinstance(found, Computed):
        return found.why
    if isinstance(found, Blocks):
        return onnx_weights.join_blocks(found, tensors, where)
    return onnx_weights.join_linear(found, tensors, where)


def weight_name(codes: str, taken: Collection[str]) -> str:
    """Return the name of a weight whose codes have one: without what a quantizer put after it.

    Example:
        >>> weight_name("model.lm_head.MatMul.weight_Q4", ())
        'model.lm_head.MatMul.weight'
    """
    match = _SUFFIX.fullmatch(codes)
    return match["name"] if match and match["name"] not in taken else codes


def _is_blocks(name: str) -> bool:
    match = _SUFFIX.fullmatch(name)
    return match is not None and not name.endswith(_QUANTIZED)
