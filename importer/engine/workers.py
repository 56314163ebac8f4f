"""Threads that read, encode and place chunks: of their own blob, or ahead for another's."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from importer.codecs.base import Encoded
from importer.engine.chunks import Chunk, cut
from importer.engine.reuse import Job
from importer.sources.file import SourceFile, opened, read_exactly
from store.blob_writer import BlobWriter

CHUNK: Final = 1 << 20
"""Bytes read at a time: below 512 KiB threads spend their time handing over the GIL."""
_DEEPEST: Final = 32
"""Chunks of a blob that are worked on at a time: hashing is faster than so many threads."""


class StoppedError(Exception):
    """Another blob failed, so this one is given up."""


class EncodedChunk(NamedTuple):
    """A chunk whose parts are in the file of the blob, to be hashed when it is their turn.

    Attributes:
        rows: of the source.
        buffer: that holds them, and parts that are views; used again after this turn.
    """

    chunk: Chunk
    rows: memoryview
    encoded: Encoded
    buffer: bytearray


@dataclass(slots=True)
class _Turn:
    """A chunk and who encodes it: a task of another thread, or we."""

    chunk: Chunk
    task: Future[EncodedChunk] | None
    placed: EncodedChunk | None = None

    @property
    def is_done(self) -> bool:
        """Whether another thread has done it."""
        return self.task is not None and self.task.done()

    def take(self) -> bool:
        """Keep others from beginning; tell whether nobody had."""
        return self.placed is None and (self.task is None or self.task.cancel())


class WorkerPool:
    """Encodes the chunks of blobs, with as many threads as are free for each.

    A thread that fills a blob does its chunks itself while every thread has a blob. When
    there are fewer blobs than threads, those that are left over work ahead: then one large
    tensor is encoded by many, and hashed, which has to go in order, by one. Use as a context
    manager.
    """

    def __init__(self, threads: int, stop: threading.Event) -> None:
        """Make a crew of `threads`, which gives up when `stop` is set."""
        self.stop = stop
        self._threads = threads
        self._mutex = threading.Lock()
        self._busy = 0
        self._pool = ThreadPoolExecutor(max(1, threads - 1))
        self._own = threading.local()
        self._sources: list[_Source] = []
        self._buffers: deque[bytearray] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for source in self._sources:
            source.close()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the calling thread as one that fills blobs."""
        with self._mutex:
            self._busy += 1
        try:
            yield
        finally:
            with self._mutex:
                self._busy -= 1

    @contextlib.contextmanager
    def buffer(self, nbytes: int = CHUNK) -> Iterator[memoryview]:
        """Lend a buffer of at least `nbytes`."""
        buffer = self._take_buffer(nbytes)
        yield memoryview(buffer)
        self._buffers.append(buffer)

    def read(self, job: Job) -> Iterator[tuple[Chunk, memoryview]]:
        """Give the source's bytes of a blob, each chunk until the next."""
        for chunk in cut(job, CHUNK):
            with self.buffer(chunk.nbytes) as buffer:
                yield chunk, self._read(chunk, buffer)

    def place(self, job: Job, blob: BlobWriter) -> Generator[EncodedChunk]:
        """Encode a blob's chunks and write what they become; give them in their order."""
        chunks = cut(job, CHUNK)
        ahead: deque[_Turn] = deque()
        try:
            while True:
                for chunk in chunks:
                    depth = self._depth()
                    task = self._pool.submit(self._place, chunk, blob) if depth else None
                    ahead.append(_Turn(chunk, task))
                    if len(ahead) > depth:
                        break
                if not ahead:
                    return
                placed = self._first(ahead, blob)
                ahead.popleft()
                yield placed
                self._buffers.append(placed.buffer)
        finally:
            # Nobody may write to the file of a blob that was given up.
            for turn in ahead:
                if turn.task is not None and not turn.task.cancel():
                    turn.task.exception()

    def _first(self, ahead: deque[_Turn], blob: BlobWriter) -> EncodedChunk:
        """Give the first of some chunks; while others have it, do what nobody has begun."""
        first = ahead[0]
        while first.placed is None and not first.is_done:
            mine = next((turn for turn in ahead if turn.take()), None)
            if mine is None:
                break
            mine.placed = self._place(mine.chunk, blob)
        if first.placed is None:
            assert first.task is not None
            first.placed = first.task.result()
        return first.placed

    def _depth(self) -> int:
        idle = self._threads - self._busy
        # One more than there are threads, so that none waits for this one to hash.
        return min(idle // max(1, self._busy) + 1, _DEEPEST) if idle > 0 else 0

    def _place(self, chunk: Chunk, blob: BlobWriter) -> EncodedChunk:
        buffer = self._take_buffer(chunk.nbytes)
        rows = self._read(chunk, memoryview(buffer))
        encoded = chunk.codec.encode(rows) if chunk.nbytes else Encoded(())
        for part, offset in zip(encoded.parts, chunk.targets, strict=False):
            blob.place(part, offset)
        return EncodedChunk(chunk, rows, encoded, buffer)

    def _read(self, chunk: Chunk, buffer: memoryview) -> memoryview:
        if self.stop.is_set():
            raise StoppedError
        rows = buffer[: chunk.nbytes]
        read_exactly(chunk.file, self._source().descriptor(chunk.file), rows, chunk.offset)
        return rows

    def _source(self) -> _Source:
        source: _Source | None = getattr(self._own, "source", None)
        if source is None:
            source = self._own.source = _Source()
            self._sources.append(source)
        return source

    def _take_buffer(self, nbytes: int) -> bytearray:
        # The one that was used last: it may be in the processor's cache.
        with contextlib.suppress(IndexError):
            buffer = self._buffers.pop()
            if len(buffer) >= nbytes:
                return buffer
        return bytearray(max(nbytes, CHUNK))


class _Source:
    """The file that a thread reads, open until it reads another."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._file: SourceFile | None = None
        self._descriptor = -1

    def descriptor(self, file: SourceFile) -> int:
        """Open a file that must still be the one that was scanned."""
        if file is not self._file:
            self.close()
            self._descriptor = self._stack.enter_context(opened(file))
            self._file = file
        return self._descriptor

    def close(self) -> None:
        """Close the file, if one is open."""
        self._file = None
        self._stack.close()
