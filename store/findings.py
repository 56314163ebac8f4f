"""What a verification can report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, unique

from store.digest import Digest


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


def unreadable(findings: Iterable[Finding]) -> frozenset[Digest]:
    """Return the blobs that findings say cannot be read whole."""
    problems = {Problem.MISSING, Problem.KIND, Problem.SIZE, Problem.UNREADABLE}
    found = (one.subject for one in findings if one.problem in problems)
    return frozenset(
        Digest.parse(subject) for subject in found if subject.startswith("sha256:")
    )


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
