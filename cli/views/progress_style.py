"""The ways in which progress is shown."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class Style(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"
