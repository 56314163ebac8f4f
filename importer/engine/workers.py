"""Threads that read, convert and place chunks: of their own blob, or ahead for another's."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from importer.codecs.base import Encoded, Runtime
from importer.engine.chunks import Chunk, cut
from importer.engine.reader import ChunkReader
from importer.planning.plan import Job
from store.blob_writer import BlobWriter
from store.pages import page_buffer
from store.parallel import Stop

CHUNK: Final = 1 << 20
"""Bytes read at a time: below 512 KiB threads spend their time handing over the GIL."""
_DEEPEST: Final = 32
"""Chunks of a blob that are worked on at a time: hashing is faster than so many threads."""


class EncodedChunk(NamedTuple):
    """A chunk whose parts are in the file of the blob, to be hashed when it is their turn.

    Attributes:
        arrays: the source's bytes.
        buffer: that holds them, and parts that are views; filled again after this turn.
    """

    chunk: Chunk
    arrays: tuple[memoryview, ...]
    encoded: Encoded
    buffer: memoryview


@dataclass(slots=True)
class _Turn:
    """A chunk and who converts it: a task of another thread, or the thread that waits."""

    chunk: Chunk
    task: Future[EncodedChunk] | None
    done: EncodedChunk | None = None

    @property
    def is_done(self) -> bool:
        """Whether another thread has done it."""
        return self.task is not None and self.task.done()

    def take(self) -> bool:
        """Keep others from beginning, and return whether nobody had begun."""
        return self.done is None and (self.task is None or self.task.cancel())


class WorkerPool:
    """Converts the chunks of blobs, with as many threads as are free for each.

    A thread that makes a blob converts its chunks itself while every thread has a blob. When
    there are fewer blobs than threads, those that are left over work ahead: then one large
    tensor is converted by many, and hashed, which has to go in order, by one. Use as a context
    manager.
    """

    def __init__(self, threads: int, stop: Stop) -> None:
        """Make a pool of `threads`, which gives up when `stop` is set."""
        self._stop = stop
        self._threads = threads
        self._mutex = threading.Lock()
        self._busy = 0
        self._pool = ThreadPoolExecutor(max(1, threads - 1))
        self._own = threading.local()
        self._readers: list[ChunkReader] = []
        self._buffers: deque[memoryview] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for reader in self._readers:
            reader.close()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the calling thread as one that makes blobs."""
        with self._mutex:
            self._busy += 1
        try:
            yield
        finally:
            with self._mutex:
                self._busy -= 1

    def read(self, job: Job) -> Iterator[tuple[Chunk, tuple[memoryview, ...]]]:
        """Yield the bytes that a blob is made from, each chunk's until the next."""
        for chunk in cut(job, CHUNK):
            buffer = self._take_buffer(chunk.room)
            yield chunk, self._read(chunk, buffer)
            self._buffers.append(buffer)

    def place(self, job: Job, blob: BlobWriter, runtime: Runtime) -> Generator[EncodedChunk]:
        """Convert a blob's chunks and write what they become; give them in their order."""
        chunks = cut(job, CHUNK)
        ahead: deque[_Turn] = deque()
        try:
            while True:
                for chunk in chunks:
                    depth = self._depth()
                    task = None
                    if depth:
                        task = self._pool.submit(self._place, chunk, blob, runtime)
                    ahead.append(_Turn(chunk, task))
                    if len(ahead) > depth:
                        break
                if not ahead:
                    return
                first = self._first(ahead, blob, runtime)
                ahead.popleft()
                yield first
                self._buffers.append(first.buffer)
        finally:
            # Nobody may write to the file of a blob that was given up.
            for turn in ahead:
                if turn.task is not None and not turn.task.cancel():
                    turn.task.exception()

    def _first(self, ahead: deque[_Turn], blob: BlobWriter, runtime: Runtime) -> EncodedChunk:
        """Return the first of some chunks; while others have it, do what nobody has begun."""
        first = ahead[0]
        while first.done is None and not first.is_done:
            mine = next((turn for turn in ahead if turn.take()), None)
            if mine is None:
                break
            mine.done = self._place(mine.chunk, blob, runtime)
        if first.done is None:
            assert first.task is not None
            first.done = first.task.result()
        return first.done

    def _depth(self) -> int:
        idle = self._threads - self._busy
        # One more than there are threads, so that none waits for this one to hash.
        return min(idle // max(1, self._busy) + 1, _DEEPEST) if idle > 0 else 0

    def _place(self, chunk: Chunk, blob: BlobWriter, runtime: Runtime) -> EncodedChunk:
        buffer = self._take_buffer(chunk.room)
        arrays = self._read(chunk, buffer)
        encoded = Encoded(())
        if chunk.elements:
            encoded = chunk.transcoder.convert(arrays, chunk.shape, chunk.elements, runtime)
        for part, offset in zip(encoded.parts, chunk.targets, strict=False):
            blob.place(part, offset)
        return EncodedChunk(chunk, arrays, encoded, buffer)

    def _read(self, chunk: Chunk, buffer: memoryview) -> tuple[memoryview, ...]:
        self._stop.check()
        return self._reader().read(chunk, buffer)

    def _reader(self) -> ChunkReader:
        reader: ChunkReader | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = self._own.reader = ChunkReader()
            self._readers.append(reader)
        return reader

    def _take_buffer(self, nbytes: int) -> memoryview:
        try:  # the one that was used last: it may be in the processor's cache
            buffer = self._buffers.pop()
        except IndexError:
            return page_buffer(max(nbytes, CHUNK))
        return buffer if len(buffer) >= nbytes else page_buffer(nbytes)
