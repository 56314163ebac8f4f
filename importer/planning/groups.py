"""Which tensors share a blob: the experts of one layer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# Through the component that follows a numbered block, whatever lies between (design.md,
# Groups). The component must have members: `shared_expert_gate` is none of these. Atomic: if
# nothing follows the first block, nothing follows a later one, and to look again at each
# of them takes 4 ms for a name that a hostile file repeats 90 000 times.
_GROUP: Final = re.compile(
    r"(?>(?:^|.*?[./])(?:layers|blocks|h)\.[0-9]+\.)(?:.*?\.)??"
    r"(?:experts|shared_experts|shared_expert|shared_mlp|switch_mlp)(?=\..)"
)


def group_of(name: str) -> str | None:
    """The group of a tensor, which names the group's blob, or None for a blob of its own."""
    match = _GROUP.match(name)
    return match[0] if match else None


def stacks_of(group: str, members: Iterable[str]) -> dict[str, list[str]]:
    """Which members are the same tensor of all experts, which one stacked tensor can hold.

    Args:
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
