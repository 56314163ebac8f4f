"""What an import reports: facts in the past tense, for whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from store import Digest, Installed


@dataclass(frozen=True, slots=True)
class Scanned:
    """The source's headers were read.

    Attributes:
        nbytes: of the weights.
    """

    tensors: int
    files: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Planned:
    """Everything is decided; nothing is written yet.

    Attributes:
        nbytes: that the import will write, at most.
    """

    blobs: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Wrote:
    """Some bytes of a blob were written.

    Attributes:
        blob: the layer's name.
    """

    blob: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class BlobDone:
    """A blob is in the store."""

    blob: str
    nbytes: int
    installed: Installed


@dataclass(frozen=True, slots=True)
class Published:
    """The name stands for the new model."""

    manifest: Digest


Event = Scanned | Planned | Wrote | BlobDone | Published
Listener = Callable[[Event], None]
"""Called from several threads, one at a time."""


def silent(_: Event) -> None:
    """Listen to nothing."""
