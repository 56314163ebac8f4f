"""What threads and workers do to write an export: jobs that do not depend on each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import KernelSpec
from importer.exports.base import Piece
from importer.sources.file import SourceFile

_SHARED: Final = 64 << 20
"""Bytes of a blob that one thread takes alone; a larger one with many tensors is shared."""


class FillJob(NamedTuple):
    """What one thread does without a break. It can be pickled.

    Attributes:
        pieces: in the order of the blob that they are in.
        blob: that is hashed meanwhile, or None.
    """

    pieces: tuple[Piece, ...]
    blob: SourceFile | None = None

    @property
    def nbytes(self) -> int:
        """Bytes to read."""
        if self.blob is not None:
            return self.blob.size
        return sum(piece.source_nbytes for piece in self.pieces)


def jobs_of(pieces: Sequence[Piece], hashed: Sequence[SourceFile]) -> Iterator[FillJob]:
    """Yield what threads do: the pieces of each blob together, those of other files apart."""
    blobs: defaultdict[SourceFile, list[Piece]] = defaultdict(list)
    for piece in pieces:
        file = piece.extents[0].file
        if file.is_blob:
            blobs[file].append(piece)
        else:
            yield FillJob((piece,))
    for blob, members in blobs.items():
        members.sort(key=lambda piece: piece.extents[0].offset)
        if blob.size > _SHARED and len(members) > 1:
            # A whole model in one file: a thread for each tensor, and one that hashes.
            yield from (FillJob((piece,)) for piece in members)
            yield FillJob((), blob)
        else:
            yield FillJob(tuple(members), blob)
    others = {e.file for p in pieces for e in p.extents[1:] if e.file.is_blob}
    for blob in (others | set(hashed)) - blobs.keys():
        yield FillJob((), blob)


def kernels_of(pieces: Iterable[Piece]) -> Counter[KernelSpec]:
    """Return the kernels that pieces need, with the bytes that each will read."""
    work: Counter[KernelSpec] = Counter()
    for piece in pieces:
        for kernel in piece.transcoder.kernels():
            work[kernel] += max(piece.source_nbytes, piece.nbytes)
    return work
