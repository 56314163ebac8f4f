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
        order; only where there is one for each number from 0.
    """
    found: dict[str, dict[int, str]] = {}
    for name in members:
        if match := _EXPERT.fullmatch(name, len(group)):
            found.setdefault(f"{group}.{match[2]}", {})[int(match[1])] = name
    return {
        stack: [experts[number] for number in range(len(experts))]
        for stack, experts in sorted(found.items())
        if experts.keys() == set(range(len(experts)))
    }


# Leading zeros would make two names of one number.
_EXPERT: Final = re.compile(r"\.(0|[1-9][0-9]{0,8})\.(.+)", re.DOTALL)
