"""Execute a plan: in parallel over blobs, in bounded memory, the same bytes every time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from importer.events import BlobDone, Event, Listener, Wrote
from importer.plan import FilePlan, TensorPlan
from importer.reuse import Job, Piece, Reuse, pieces_of
from importer.sources.tree import opened, read_exactly
from store import BlobRef, Installed
from store.fs import Buffer
from store.writer import Writer

CHUNK: Final = 1 << 20
"""Bytes read at a time: below 512 KiB threads spend their time handing over the GIL."""


class StoppedError(Exception):
    """Another blob failed, so this one is given up."""


@dataclass(frozen=True, slots=True)
class Written:
    """A blob of the plan that is in the store."""

    ref: BlobRef
    installed: Installed


def write_blobs(
    jobs: Sequence[Job], writer: Writer, reuse: Reuse, threads: int, listen: Listener
) -> list[Written]:
    """Write every blob and file of a plan; give what became of each, in the plan's order.

    The largest comes first, so that no thread is left alone with a long one at the end. Each
    thread holds one buffer of `CHUNK` bytes. What the store is known to have is not made
    again.

    Raises:
        InputError: the source changed.
        OSError: reading or writing failed; nothing is published.
    """
    engine = _Engine(jobs, writer, reuse, listen)
    count = max(1, min(threads, len(jobs)))
    with ThreadPoolExecutor(count) as pool:
        # One task for each thread, which takes jobs from a common queue: a future for each
        # of 100 000 blobs takes 150 MB.
        futures = [pool.submit(engine.work) for _ in range(count)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # Also when a signal ends the wait: threads look at this between chunks.
            engine.stop.set()
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise next((e for e in errors if not isinstance(e, StoppedError)), errors[0])
    return [engine.done[number] for number in range(len(jobs))]


class _Engine:
    def __init__(
        self, jobs: Sequence[Job], writer: Writer, reuse: Reuse, listen: Listener
    ) -> None:
        self.stop = threading.Event()
        self.done: dict[int, Written] = {}
        self._jobs = jobs
        self._queue = deque(sorted(range(len(jobs)), key=lambda n: (-jobs[n].nbytes, n)))
        self._writer = writer
        self._reuse = reuse
        self._listen = listen
        self._mutex = threading.Lock()
        self._own = threading.local()

    def work(self) -> None:
        """Write jobs until there are none; stop the others when one fails."""
        try:
            while not self.stop.is_set():
                try:
                    number = self._queue.popleft()
                except IndexError:
                    return
                self.done[number] = self._run(self._jobs[number])
        except BaseException:
            self.stop.set()
            raise

    def _run(self, job: Job) -> Written:
        name = job.file.path if isinstance(job, FilePlan) else job.name
        fingerprints: list[bytes] = []
        ref = self._reuse.recall(job)
        if ref is None and self._reuse.expects(job):
            # Reading costs a tenth of hashing and writing, and a blob with this very header
            # was made before: a file that was only touched, moved or fetched again.
            fingerprints = [self._copy(piece, lambda _: None) for piece in pieces_of(job)]
            ref = self._reuse.look_up(job, fingerprints)
        if ref is not None and self._writer.reuse(ref):
            done = Written(ref, Installed.REUSED)
            self._tell(Wrote(name, ref.size))
        else:
            done, fingerprints = self._make(job, name)
        if fingerprints:
            self._reuse.note(job, fingerprints, done.ref)
        self._tell(BlobDone(name, done.ref.size, done.installed))
        return done

    def _make(self, job: Job, name: str) -> tuple[Written, list[bytes]]:
        blob = self._writer.new_blob()

        def write(data: Buffer) -> None:
            blob.write(data)
            self._tell(Wrote(name, len(data)))

        try:
            if isinstance(job, FilePlan):
                fingerprints = [self._copy(piece, write) for piece in pieces_of(job)]
            else:
                write(job.header)
                fingerprints = [p for plan in job.tensors for p in self._tensor(plan, write)]
            if self.stop.is_set():
                raise StoppedError
            ref, installed = self._writer.commit(blob)
        finally:
            blob.close()
        assert ref.size == job.nbytes, f"`{name}`: planned {job.nbytes}, wrote {ref.size}"
        return Written(ref, installed), fingerprints

    def _tensor(self, plan: TensorPlan, write: Callable[[Buffer], None]) -> list[bytes]:
        # The first part streams; the small ones wait for their turn in the file.
        later: list[list[bytes]] = [[] for _ in plan.parts[1:]]

        def encode(rows: memoryview) -> None:
            first, *rest = plan.codec.encode(rows).parts
            write(first)
            for pieces, piece in zip(later, rest, strict=True):
                pieces.append(bytes(piece))

        row = plan.codec.row_bytes(plan.shape)
        whole_rows = max(1, CHUNK // row) * row
        fingerprints = [
            self._copy((source.file, source.offset, source.nbytes), encode, whole_rows)
            for source in plan.sources
        ]
        for pieces in later:
            for piece in pieces:
                write(piece)
        return fingerprints

    def _copy(
        self, source: Piece, write: Callable[[memoryview], None], chunk: int = CHUNK
    ) -> bytes:
        file, offset, nbytes = source
        fingerprint = self._reuse.fingerprint()
        buffer = self._buffer(min(chunk, max(nbytes, 1)))
        with opened(file) as descriptor:
            for start in range(0, nbytes, chunk):
                if self.stop.is_set():
                    raise StoppedError
                piece = buffer[: min(chunk, nbytes - start)]
                read_exactly(file, descriptor, piece, offset + start)
                fingerprint.update(piece)
                write(piece)
        return fingerprint.digest()

    def _buffer(self, size: int) -> memoryview:
        buffer: memoryview | None = getattr(self._own, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._own.buffer = memoryview(bytearray(max(size, CHUNK)))
        return buffer

    def _tell(self, event: Event) -> None:
        with self._mutex:
            self._listen(event)
