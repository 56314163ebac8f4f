"""A blob of the store and the source that it was made from, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import Encoded, Runtime
from importer.engine.chunks import Chunk, cut_file, cut_tensors
from importer.engine.reader import ChunkReader
from importer.planning.plan import FilePlan, TensorPlan
from store import BlobRef, Store
from store.fs import File
from store.tensorblob import read_header, read_tensors
from store.tensorfile import TensorEntry, elements

CHUNK: Final = 1 << 20
"""Bytes of the source at a time."""


class ChunkPair(NamedTuple):
    """A chunk of the source and what the store has of it, both valid until the next.

    Attributes:
        done: elements of the tensor, or bytes of the file, before this chunk.
        arrays: the source's bytes.
        parts: what the blob has for them; shorter than they should be where it ends early,
            empty where it has no such tensor, or one of another dtype.
    """

    chunk: Chunk
    done: int
    arrays: tuple[memoryview, ...]
    parts: tuple[memoryview, ...]

    @property
    def place(self) -> str:
        """Where the chunk begins, for people."""
        return f"{'byte' if self.chunk.tensor is None else 'element'} {self.done}"

    @property
    def is_complete(self) -> bool:
        """Whether the blob has every byte that the chunk became."""
        tensor = self.chunk.tensor
        assert tensor is not None
        places = _places(tensor, self.done, len(self.chunk.elements))
        return [len(part) for part in self.parts] == [end - begin for begin, end in places]

    def is_same(self, runtime: Runtime) -> bool:
        """Whether the source's bytes, converted again, give the bits that the blob has."""
        chunk, made = self.chunk, Encoded(())
        if chunk.elements:
            convert = chunk.transcoder.convert
            made = convert(self.arrays, chunk.shape, chunk.elements, runtime)
        elif not any(map(len, self.parts)):
            return True
        # As bytes, which compare at memory speed; views compare item by item.
        return [bytes(part) for part in made.parts] == [bytes(part) for part in self.parts]


def read_pairs(
    store: Store, layer: str, plans: Sequence[TensorPlan] | FilePlan, ref: BlobRef
) -> Iterator[ChunkPair]:
    """Read the sources of some tensors, or of a file, and a stored blob that has them.

    Others may have written the blob: its own header says where its tensors are.

    Args:
        layer: name of the layer whose blob it is.

    Raises:
        InputError: the source changed, or the blob's header is malformed.
        IntegrityError: the blob is not there.
    """
    with store.blobs.open(ref.digest) as blob, ChunkReader() as reader:
        if isinstance(plans, FilePlan):
            stored, chunks = _StoredParts(store, blob), cut_file(plans, CHUNK)
        else:
            stored, chunks = _StoredParts(store, blob), cut_tensors(plans, CHUNK)
            stored.find(layer, ref)
        buffer = bytearray(CHUNK)
        done = 0
        for chunk in chunks:
            if chunk.room > len(buffer):
                buffer = bytearray(chunk.room)
            arrays = reader.read(chunk, memoryview(buffer))
            yield ChunkPair(chunk, done, arrays, tuple(stored.parts(chunk, done)))
            done = 0 if chunk.ends_tensor else done + len(chunk.elements)


class _StoredParts:
    """Reads parts of a stored blob, wherever they are in it."""

    def __init__(self, store: Store, blob: File) -> None:
        self._store, self._blob = store, blob
        self._entries: dict[str, TensorEntry] = {}
        self._start = 0
        self._buffers: dict[int, memoryview] = {}

    def find(self, layer: str, ref: BlobRef) -> None:
        """Read the header, which says where the tensors are."""
        header = read_header(self._store, self._blob, ref.size, f"blob {ref.digest}")
        self._entries = {
            found.name + suffix: part
            for found in read_tensors(layer, header)
            for suffix, part in found.parts.items()
        }
        self._start = header.nbytes

    def parts(self, chunk: Chunk, done: int) -> Iterator[memoryview]:
        """Yield what there is for a chunk, of whose tensor `done` elements came before."""
        tensor, count = chunk.tensor, len(chunk.elements)
        if tensor is None:
            yield self._read(0, done, count)
            return
        places = _places(tensor, done, count)
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


def _places(tensor: TensorPlan, done: int, count: int) -> list[tuple[int, int]]:
    """Return where in each part is what `count` elements became, after `done`."""
    total = max(elements(tensor.shape), 1)
    return [
        (part.nbytes * done // total, part.nbytes * (done + count) // total)
        for part in tensor.parts
    ]
