"""What an import reports: facts in the past tense, for whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from store import CommitOutcome, Digest


class Fetching(NamedTuple):
    """It is known what the Hub has; some of it is to be fetched.

    Attributes:
        source: `org/name`.
        nbytes: that the cache lacks.
    """

    source: str
    commit: str
    files: int
    nbytes: int


class Received(NamedTuple):
    """Some bytes of a file from the Hub are here, perhaps from an earlier run.

    Attributes:
        nbytes: negative when they were damaged and have to come again.
        is_new: whether they have come in this run.
    """

    path: str
    nbytes: int
    is_new: bool = True


class Fetched(NamedTuple):
    """Everything that was to be fetched is here.

    Attributes:
        seconds: that it took.
    """

    files: int
    nbytes: int
    seconds: float


class ModelBegun(NamedTuple):
    """One of several models is begun.

    Attributes:
        number: of the model, from 1 on.
    """

    name: str
    number: int
    total: int


class Scanned(NamedTuple):
    """The source's headers were read.

    Attributes:
        files: that the weights are in; blobs, of a stored model.
        nbytes: of the weights.
        model: the manifest of the stored model that the source is, or None.
        of: what the source is called, where there are several.
    """

    tensors: int
    files: int
    nbytes: int
    model: Digest | None = None
    of: str = ""


class Moving(NamedTuple):
    """It is known which blobs a model has that goes to or comes from another place.

    Attributes:
        how: such as `pulling`.
        place: the other one, such as a registry.
        nbytes: of all of them.
    """

    how: str
    place: str
    blobs: int
    nbytes: int


class Moved(NamedTuple):
    """A blob is where it was to go, or was there.

    Attributes:
        is_new: whether it went there in this run.
    """

    blob: str
    is_new: bool


class Planned(NamedTuple):
    """Everything is decided; nothing is written yet.

    Attributes:
        nbytes: of all blobs.
        present: blobs that the store is known to have.
        what: is written: a blob of the store, or a file of an export.
        expected: other blobs that it may have, as it has made their like.
    """

    blobs: int
    nbytes: int
    present: int
    what: str = "blob"
    expected: int = 0


class Distributed(NamedTuple):
    """The workers of a cluster are about to make what is left.

    Attributes:
        threads: of all of them.
    """

    workers: int
    threads: int


class Compiling(NamedTuple):
    """Kernels are being compiled for this machine, which takes seconds, once."""


class NoKernels(NamedTuple):
    """Kernels cannot be had: quantizing goes on without, and is slower."""

    reason: str


class Wrote(NamedTuple):
    """Some bytes of a blob were written, or need not be.

    Attributes:
        blob: the layer's name.
        is_new: whether they were written in this run.
    """

    blob: str
    nbytes: int
    is_new: bool = True


class BlobDone(NamedTuple):
    """A blob is in the store."""

    blob: str
    nbytes: int
    installed: CommitOutcome


class Sampling(NamedTuple):
    """It is measured what types would lose, so that some can be chosen.

    Attributes:
        nbytes: that are read of the source, less where they are known.
    """

    tensors: int
    nbytes: int


class Measuring(NamedTuple):
    """Everything is written; now it is compared with the source.

    Attributes:
        nbytes: of the source.
    """

    tensors: int
    nbytes: int


class Measured(NamedTuple):
    """A tensor was compared with its source, or a sample of it with what it would become.

    Attributes:
        nbytes: of the source.
    """

    tensor: str
    nbytes: int


class Verified(NamedTuple):
    """Some bytes of the store were hashed.

    Attributes:
        nbytes: since the last event.
        total: bytes to hash in all.
    """

    nbytes: int
    total: int


class Compared(NamedTuple):
    """Some bytes of a source were compared with what the store has of them.

    Attributes:
        nbytes: since the last event.
        total: bytes to compare in all.
    """

    nbytes: int
    total: int


class Evaluated(NamedTuple):
    """Some of a text went through a model.

    Attributes:
        nbytes: since the last event.
        total: bytes of the text.
    """

    nbytes: int
    total: int


class Published(NamedTuple):
    """The name stands for the new model.

    Attributes:
        is_new: whether it stood for another one, or for none.
    """

    manifest: Digest
    is_new: bool = True


Event = (
    ModelBegun
    | Fetching
    | Received
    | Fetched
    | Scanned
    | Moving
    | Moved
    | Planned
    | Distributed
    | Compiling
    | NoKernels
    | Wrote
    | BlobDone
    | Sampling
    | Measuring
    | Measured
    | Verified
    | Compared
    | Evaluated
    | Published
)
Listener = Callable[[Event], None]
"""Called from several threads, one at a time."""


def silent(_: Event) -> None:
    """Listen to nothing."""
