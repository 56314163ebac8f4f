"""A blob of the store beside the source that it was made from, chunk by chunk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from importer.engine.chunks import Chunk, cut
from importer.planning.plan import BlobPlan, FilePlan, TensorPlan
from importer.sources.file import SourceFile, opened, read_exactly
from store import BlobRef, Store
from store.fs import File
from store.tensorblob import read_header, read_tensors
from store.tensorfile import TensorEntry

CHUNK: Final = 1 << 20
"""Bytes of the source at a time."""


class ChunkPair(NamedTuple):
    """A chunk, both sides valid until the next.

    Attributes:
        done: bytes of the tensor's source, or of the file, before this chunk.
        rows: of the source.
        parts: what the blob has for them; shorter than they should be where it ends early,
            empty where it has no such tensor, or one of another dtype.
    """

    chunk: Chunk
    done: int
    rows: memoryview
    parts: tuple[memoryview, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the blob has every byte that the rows of a tensor became."""
        tensor = self.chunk.tensor
        assert tensor is not None
        expected = [end - begin for begin, end in _places(tensor, self.done, self.chunk.nbytes)]
        return [len(part) for part in self.parts] == expected


def beside(store: Store, job: BlobPlan | FilePlan, ref: BlobRef) -> Iterator[ChunkPair]:
    """Read a planned blob's source and a stored blob with the same tensors together.

    Others may have written the blob: its own header says where its tensors are.

    Raises:
        InputError: the source changed, or the blob's header is malformed.
        IntegrityError: the blob is not there.
    """
    with store.blobs.open(ref.digest) as blob, contextlib.ExitStack() as stack:
        stored = _Stored(store, blob, ref, job)
        buffer = memoryview(bytearray(CHUNK))
        file: SourceFile | None = None
        descriptor, done = -1, 0
        for chunk in cut(job, CHUNK):
            if chunk.file is not file:
                stack.close()
                descriptor = stack.enter_context(opened(chunk.file))
                file = chunk.file
            rows = buffer[: chunk.nbytes]
            read_exactly(chunk.file, descriptor, rows, chunk.offset)
            yield ChunkPair(chunk, done, rows, tuple(stored.parts(chunk, done)))
            done = 0 if chunk.ends_tensor else done + chunk.nbytes


class _Stored:
    """Reads parts of a stored blob, wherever they are in it."""

    def __init__(
        self, store: Store, blob: File, ref: BlobRef, job: BlobPlan | FilePlan
    ) -> None:
        self._store, self._blob = store, blob
        self._entries: dict[str, TensorEntry] = {}
        self._start = 0
        self._buffers: dict[int, memoryview] = {}
        if isinstance(job, BlobPlan):
            header = read_header(store, blob, ref.size, f"blob {ref.digest}")
            self._entries = {
                found.name + suffix: part
                for found in read_tensors(job.name, header)
                for suffix, part in found.parts.items()
            }
            self._start = header.nbytes

    def parts(self, chunk: Chunk, done: int) -> Iterator[memoryview]:
        """What there is for a chunk, of whose tensor `done` source bytes came before."""
        tensor = chunk.tensor
        if tensor is None:
            yield self._read(0, done, chunk.nbytes)
            return
        places = _places(tensor, done, chunk.nbytes)
        for number, (part, (begin, end)) in enumerate(zip(tensor.parts, places, strict=True)):
            entry = self._entries.get(tensor.name + part.suffix)
            if entry is None or entry.dtype != part.dtype:
                yield self._read(number, 0, 0)
            else:
                nbytes = max(min(end, entry.nbytes) - begin, 0)
                yield self._read(number, self._start + entry.begin + begin, nbytes)

    def _read(self, number: int, offset: int, nbytes: int) -> memoryview:
        if len(self._buffers.get(number, b"")) < max(nbytes, 1):
            self._buffers[number] = memoryview(bytearray(max(nbytes, 1)))
        buffer = self._buffers[number][:nbytes]
        return buffer[: self._store.fs.read_into(self._blob, buffer, offset)]


def _places(tensor: TensorPlan, done: int, nbytes: int) -> list[tuple[int, int]]:
    """Where in each part is what `nbytes` of the source become, after `done`."""
    total = max(tensor.source_nbytes, 1)
    return [
        (part.nbytes * done // total, part.nbytes * (done + nbytes) // total)
        for part in tensor.parts
    ]
