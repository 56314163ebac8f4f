"""Which tensors share a blob: the experts of one layer."""

from __future__ import annotations

import re
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
