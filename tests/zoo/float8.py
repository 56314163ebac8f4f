"""What FP8 weights and their scales stand for: the rules a second time, by names and shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from tests.zoo.readers import Tensor

SCALES: Final = "_scale_inv"
GATE_AND_UP: Final = ("gate_proj", "up_proj", "w1", "w3")

Fact = tuple[str, list[int], str | None, int]
"""Dtype of the values, shape, type and bytes."""


def facts(tensors: Mapping[str, Tensor], block: tuple[int, int]) -> dict[str, Fact]:
    """Return what `show` says of the tensors of a checkpoint, by name.

    Args:
        tensors: as they are stored.
        block: rows and columns that share a scale.
    """
    kind = f"fp8 {block[0]}x{block[1]}"
    found: dict[str, Fact] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALES):
            continue
        shape, nbytes = list(tensor.shape), len(tensor.data)
        if tensor.dtype == "F8_E4M3":
            places = [-(-side // size) for side, size in zip(shape[-2:], block, strict=True)]
            scales = math.prod((*shape[:-2], *places))
            assert _stands_by(name, tensors), name
            found[name] = ("F32", shape, kind, nbytes + 4 * scales)
        else:
            found[name] = (tensor.dtype, shape, None, nbytes)
    return found


def _stands_by(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether the scales of a weight are there, its own or those of all experts."""
    if name + SCALES in tensors:
        return True
    stack, last = re.sub(r"\.\d+\.(\w+)\.weight$", "", name), name.split(".")[-2]
    held_by = "gate_up_proj" if last in GATE_AND_UP else "down_proj"
    return f"{stack}.{held_by}{SCALES}" in tensors
