"""The orders in which tensors are listed."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class Sort(StrEnum):
    """How tensors are ordered."""

    NAME = "name"
    SIZE = "size"
    ERROR = "error"
