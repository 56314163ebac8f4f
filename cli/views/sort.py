"""The orders in which tensors and models are listed."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class Sort(StrEnum):
    """How tensors are ordered."""

    NAME = "name"
    SIZE = "size"
    SQNR = "sqnr"
    ZEROED = "zeroed"
    CLIPPED = "clipped"
    ERROR = "error"
    """An older word for `sqnr`."""


@unique
class ModelSort(StrEnum):
    """How models are ordered."""

    NAME = "name"
    SIZE = "size"
    MODIFIED = "modified"
