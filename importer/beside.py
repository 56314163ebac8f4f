"""A blob of the store beside the source that it was made from, chunk by chunk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from importer.chunks import Chunk, cut
from importer.reuse import Job
from importer.sources.tree import SourceFile, opened, read_exactly
from store import BlobRef, Store

CHUNK: Final = 1 << 20
"""Bytes of the source at a time."""


class Beside(NamedTuple):
    """A chunk, both sides valid until the next.

    Attributes:
        rows: of the source.
        parts: what the blob has for them; shorter than they should be where it ends early.
    """

    chunk: Chunk
    rows: memoryview
    parts: tuple[memoryview, ...]


def beside(store: Store, job: Job, ref: BlobRef) -> Iterator[Beside]:
    """Read a planned blob's source and the stored blob together.

    Raises:
        InputError: the source changed.
        IntegrityError: the blob is not there.
    """
    buffers: dict[int, memoryview] = {}

    def buffer(number: int, size: int) -> memoryview:
        if len(buffers.get(number, b"")) < size:
            buffers[number] = memoryview(bytearray(max(size, 1)))
        return buffers[number][:size]

    with store.blobs.open(ref.digest) as blob, contextlib.ExitStack() as stack:
        file: SourceFile | None = None
        descriptor = -1
        for chunk in cut(job, CHUNK):
            if chunk.file is not file:
                stack.close()
                descriptor = stack.enter_context(opened(chunk.file))
                file = chunk.file
            rows = buffer(-1, chunk.nbytes)
            read_exactly(chunk.file, descriptor, rows, chunk.offset)
            parts = []
            for number, (offset, nbytes) in enumerate(_places(chunk)):
                part = buffer(number, nbytes)
                parts.append(part[: store.fs.read_into(blob, part, offset)])
            yield Beside(chunk, rows, tuple(parts))


def _places(chunk: Chunk) -> Iterator[tuple[int, int]]:
    """Offset and size in the blob of each part of a chunk."""
    if chunk.tensor is None:
        yield chunk.targets[0], chunk.nbytes
        return
    total = chunk.tensor.source_nbytes
    for offset, part in zip(chunk.targets, chunk.tensor.parts, strict=True):
        yield offset, part.nbytes * chunk.nbytes // total if total else 0
