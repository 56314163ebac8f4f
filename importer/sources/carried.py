"""Models that another one carries, below a prefix of tensors and a directory of files."""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum, unique
from typing import Final


@unique
class Role(StrEnum):
    """What a model is to the one that carries it."""

    DRAFT = "draft"
    ADAPTER = "adapter"


DRAFT_CONFIG: Final = "draft/config.json"
"""The file that tells a draft's architecture; Ollama reads it from there."""
ADAPTER_CONFIG: Final = "adapter/adapter_config.json"
_CONFIGS: Final = {Role.DRAFT: DRAFT_CONFIG, Role.ADAPTER: ADAPTER_CONFIG}


def carried_prefixes(files: Container[str]) -> tuple[str, ...]:
    """Return what the tensors of carried models begin with, `draft.` and `adapter.`.

    Args:
        files: the paths of the files that a model has; a carried one has its configuration.
    """
    return tuple(f"{role}." for role, config in _CONFIGS.items() if config in files)
