"""The groups in which `--help` shows options; each is the `rich_help_panel` of its options."""

from __future__ import annotations

from typing import Final

OPTIONS: Final = "Options"
"""Of options that name no group."""
SOURCE: Final = "Source options"
TYPES: Final = "Type options"
BUDGET: Final = "Size options"
"""Of a model whose types are chosen."""
PARTS: Final = "Parts to print"
RESOURCES: Final = "Resource options"
COMMON: Final = "Common options"
"""What every command has; the last group."""
