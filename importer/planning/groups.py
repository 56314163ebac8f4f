"""Tell which tensors share a blob: the weights of the experts of one layer."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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


class Stack(NamedTuple):
    """Where the weights of one expert go.

    Attributes:
        group: that names the blob of all projections.
        projection: which of them it is.
        expert: its number.
    """

    group: str
    projection: str
    expert: int

    @property
    def key(self) -> str:
        """Of the tensor that holds this projection of all experts."""
        return f"{self.group}.{self.projection}.weight"


def stack_of(key: str) -> Stack | None:
    """Return the stack that a tensor of one expert belongs to, where Ollama stacks such ones.

    Ollama (`perExpertGroup` of `x/create`) stacks the weights of numbered experts in the places
    where the models that it runs have them, and nothing else.

    Example:
        >>> stack_of("model.layers.1.mlp.experts.7.up_proj.weight")
        Stack(group='model.layers.1.mlp.experts', projection='up_proj', expert=7)

    Args:
        key: name of the tensor in its component.
    """
    found = _EXPERT.fullmatch(key)
    return None if found is None else Stack(found[1], found[3], int(found[2]))


def unstacked(key: str, count: int) -> list[str] | None:
    """Return the keys of the experts whose stack has a key; None where it is not a stack.

    Example:
        >>> unstacked("model.layers.1.mlp.experts.up_proj.weight", 2)
        ['model.layers.1.mlp.experts.0.up_proj.weight', ...]

    Args:
        key: name of the tensor in its component.
        count: of the experts.
    """
    for place in re.finditer(r"experts\.", key):
        group, projection = key[: place.end()], key[place.end() :]
        stack = stack_of(f"{group}0.{projection}")
        if stack is not None and stack.key == key:
            return [f"{group}{expert}.{projection}" for expert in range(count)]
    return None


_EXPERT: Final = re.compile(
    r"((?:model\.|language_model\.(?:model\.)?|model\.language_model\."
    r"|(?:(?:model\.)?language_model\.)?backbone\.|mtp\.)?layers\.[0-9]{1,9}\."
    r"(?:mlp\.(?:experts|shared_experts|switch_mlp)|moe\.experts|mixer\.(?:shared_)?experts))"
    r"\.([0-9]{1,9})\.(.+)\.weight",
    re.DOTALL,
)
