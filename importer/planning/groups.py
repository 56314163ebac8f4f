"""Tell which tensors share a blob: the weights of the experts of one layer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# Through the component that follows a numbered block, whatever lies between
# (docs/formats/blobs.md). The component must have members, and `shared_expert_gate` has none.
# Atomic: if nothing follows the first block, nothing follows a later one, and to look again
# at each of them takes 4 ms for a name that a hostile file repeats 90 000 times.
_GROUP: Final = re.compile(
    r"(?>(?:^|.*?[./])(?:layers|blocks|h)\.[0-9]+\.)(?:.*?\.)??"
    r"(?:experts|shared_experts|shared_expert|shared_mlp|switch_mlp)(?=\..)"
)

_MATRIX: Final = 2
_STACK: Final = 3


def prefix_of(name: str) -> str | None:
    """Return the part of a tensor's name that it shares with the experts of its layer.

    It names their group's blob. None where the tensor is not below experts.
    """
    match = _GROUP.match(name)
    return match[0] if match else None


def joins(name: str, shape: tuple[int, ...], *, prequantized: bool) -> bool:
    """Tell whether a tensor below experts shares their blob; the others have one of their own.

    Matrices do, and stacks of them, as in Ollama's blobs. A router's bias is not one of them.

    Args:
        name: of the tensor.
        shape: of the tensor.
        prequantized: whether the source is quantized already. What is stored of a weight then
            has many names and shapes, and stays together: DeepSeek-V3 in AWQ would have
            133 000 blobs otherwise.
    """
    if prequantized:
        return not name.endswith("bias")
    is_matrix = len(shape) == _MATRIX and name.endswith(".weight")
    return is_matrix or len(shape) == _STACK


def stacks_of(group: str, members: Iterable[str]) -> dict[str, list[str]]:
    """Find the members that are the same tensor of all experts: one stacked tensor holds them.

    Args:
        group: their common prefix.
        members: names, such as `…experts.7.up_proj.weight`.

    Returns:
        Name of the stack (`…experts.up_proj.weight`) -> its members, experts in numeric
        order; no members where the experts are not numbered 0, 1, 2 and so on.
    """
    found: dict[str, dict[str, str]] = {}
    for name in members:
        if match := _EXPERT.fullmatch(name, len(group)):
            found.setdefault(f"{group}.{match[2]}", {})[match[1]] = name
    stacks = {}
    for stack, experts in sorted(found.items()):
        numbers = list(map(str, range(len(experts))))
        is_complete = experts.keys() == set(numbers)
        stacks[stack] = [experts[number] for number in numbers] if is_complete else []
    return stacks


_EXPERT: Final = re.compile(r"\.([0-9]{1,9})\.(.+)", re.DOTALL)
