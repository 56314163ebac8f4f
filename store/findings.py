"""What a verification can report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Problem(StrEnum):
    """What is wrong; stable words for scripts."""

    MISSING = "missing"
    SIZE = "size"
    KIND = "kind"
    DIGEST = "digest"
    HEADER = "header"
    LAYER = "layer"
    CONFIG = "config"
    MANIFEST = "manifest"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"
    SOURCE = "source"
    """Not as in the source that the model was made from."""
    EXPORT = "export"
    """Not as the model would be exported."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim that does not hold.

    Attributes:
        subject: the blob's digest, or a path in the store.
        models: the names that are concerned.
    """

    problem: Problem
    subject: str
    message: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification saw.

    Attributes:
        notes: what is not an error, such as what a killed writer left behind.
        nbytes: that were hashed.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    models: int
    blobs: int
    nbytes: int
