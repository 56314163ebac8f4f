"""Execute a plan: in parallel over blobs, in bounded memory, the same bytes every time."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from importer.codecs import registry
from importer.codecs.base import Codec
from importer.engine.chunks import Chunk
from importer.engine.reuse import Job, Reuse
from importer.engine.schedule import JobQueue
from importer.engine.workers import WorkerPool
from importer.events import BlobDone, Compiling, Event, Listener, NoKernels, Wrote
from importer.planning.plan import BlobPlan, FilePlan, TensorPlan
from store import BlobRef, CommitOutcome
from store.blob_writer import BlobWriter
from store.errors import InputError
from store.text import printable
from store.writer import Writer

_WORTH_RESERVING: Final = 1 << 18
"""Bytes of a blob from which on less work in writing outweighs one more call."""
_COMMITTERS: Final = 8
"""Threads, at least, that sync blobs, which waits for the disk while others encode. Several
at a time share one commit of the file system's journal."""
_AT_ONCE: Final = 256
"""Blobs that are reused under one lock, which gc waits for: that takes 5 ms."""


@dataclass(frozen=True, slots=True)
class Written:
    """A blob of the plan that is in the store."""

    ref: BlobRef
    installed: CommitOutcome


def write_blobs(  # noqa: PLR0913 - each is another side of it
    jobs: Sequence[Job],
    writer: Writer,
    reuse: Reuse,
    threads: int,
    listen: Listener,
    *,
    known: Sequence[BlobRef | None] = (),
    allow_nonfinite: bool = False,
) -> list[Written]:
    """Write every blob and file of a plan; give what became of each, in the plan's order.

    What the store is known to have is not made again. Of the rest the largest comes first,
    so that no thread is left alone with a long one at the end.

    Args:
        jobs: blobs and files of a plan.
        writer: of the store.
        reuse: what the store is known to have.
        threads: that compute at a time; each holds a few MiB.
        listen: told of everything.
        known: for each job the blob that the store is known to have, or None.
        allow_nonfinite: quantize tensors with NaNs and infinities, too.

    Raises:
        InputError: the source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed; nothing is published.
    """
    engine = _Engine(jobs, writer, reuse, listen, allow_nonfinite=allow_nonfinite)
    engine.reuse(known)
    engine.write_rest(threads)
    written = [done for done in engine.done if done is not None]
    assert len(written) == len(jobs), "a job was neither written nor failed"
    return written


class _Engine:
    def __init__(
        self,
        jobs: Sequence[Job],
        writer: Writer,
        reuse: Reuse,
        listen: Listener,
        *,
        allow_nonfinite: bool,
    ) -> None:
        self.done: list[Written | None] = [None] * len(jobs)
        self._jobs = jobs
        self._writer = writer
        self._reuse = reuse
        self._listen = listen
        self._allow_nonfinite = allow_nonfinite
        self._telling = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        # Jobs whose sources were read, and gave no blob that the store had.
        self._looked: set[int] = set()

    def reuse(self, known: Sequence[BlobRef | None]) -> None:
        """Take what the store is known to have."""
        found = [(number, ref) for number, ref in enumerate(known) if ref is not None]
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            taken = self._writer.reuse([ref for _, ref in some])
            for (number, ref), is_there in zip(some, taken, strict=True):
                if is_there:
                    self._reused(number, ref)

    def write_rest(self, threads: int) -> None:
        """Write what is left, with `threads` that compute."""
        left = [number for number, done in enumerate(self.done) if done is None]
        if not left:
            return
        count = min(threads, len(left))
        self._agenda = JobQueue(self._jobs, left, count)
        committers = max(count, _COMMITTERS)
        # Unfinished blobs are open files, and content that only the page cache has.
        self._backlog = threading.Semaphore(count + committers)
        with (
            WorkerPool(threads, self._stop) as self._crew,
            ThreadPoolExecutor(committers) as self._committers,
            ThreadPoolExecutor(count) as workers,
        ):
            try:
                # One task for each thread, which takes jobs from a queue: a future for each
                # of 100 000 blobs takes 150 MB.
                for _ in range(count):
                    workers.submit(self._work)
                self._prepare_kernels(left)
                workers.shutdown()
                self._committers.shutdown()
            finally:
                # Also when a signal ends the wait: threads look at this between chunks.
                self._halt()
        if self._errors:
            raise self._errors[0]

    def _prepare_kernels(self, numbers: Iterable[int]) -> None:
        if not self._agenda.wait_for_need():
            return
        work: Counter[Codec] = Counter()
        for job in map(self._jobs.__getitem__, numbers):
            for tensor in job.tensors if isinstance(job, BlobPlan) else ():
                work[tensor.codec] += tensor.source_nbytes
        reason = registry.prepare(work, lambda: self._tell(Compiling()))
        if reason is not None:
            self._tell(NoKernels(reason))
        self._agenda.set_ready()

    def _work(self) -> None:
        """Write jobs until there are none; stop everybody when one fails."""
        try:
            with self._crew.at_work():
                while (number := self._agenda.next()) is not None:
                    self._run(number, self._jobs[number])
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._fail(error)
        finally:
            self._agenda.leave()

    def _run(self, number: int, job: Job) -> None:
        if number not in self._looked and self._reuse.expects(job):
            # Reading costs a tenth of hashing and writing, and a blob with this very header
            # was made before: a file that was only touched, moved or fetched again.
            fingerprints = self._read(job)
            ref = self._reuse.look_up(job, fingerprints)
            if ref is not None and self._writer.reuse([ref])[0]:
                self._reused(number, ref)
                self._reuse.note(job, fingerprints, ref)
                return
        if not self._agenda.is_ready(job):
            self._looked.add(number)
            self._agenda.put_back(number)
            return
        self._make(number, job)

    def _reused(self, number: int, ref: BlobRef) -> None:
        name = _name(self._jobs[number])
        self.done[number] = Written(ref, CommitOutcome.REUSED)
        self._tell(Wrote(name, ref.size))
        self._tell(BlobDone(name, ref.size, CommitOutcome.REUSED))

    def _make(self, number: int, job: Job) -> None:
        path = self._writer.open()
        try:
            with contextlib.closing(BlobWriter(self._writer.fs, path)) as blob:
                if job.nbytes >= _WORTH_RESERVING:
                    blob.reserve(job.nbytes)
                if isinstance(job, BlobPlan):
                    blob.write(job.header)
                    self._tell(Wrote(job.name, len(job.header)))
                fingerprints = self._fill(job, blob)
                ref = blob.finish()
        except BaseException:
            self._writer.discard(path)
            raise
        self._backlog.acquire()
        self._committers.submit(self._commit, number, path, ref, fingerprints)

    def _fill(self, job: Job, blob: BlobWriter) -> list[bytes]:
        """Give a blob its data; return the fingerprints of what it was made from."""
        name = _name(job)
        fingerprints = _Fingerprints(self._reuse)
        nonfinite = 0
        # Closed before the blob is: those who work ahead write to its file.
        with contextlib.closing(self._crew.place(job, blob)) as placed:
            for chunk, rows, encoded, _ in placed:
                fingerprints.update(chunk, rows)
                for part in encoded.parts[: None if chunk.is_whole else 1]:
                    blob.hash(part)
                nonfinite += encoded.nonfinite
                self._tell(Wrote(name, sum(map(len, encoded.parts))))
                if chunk.ends_tensor and chunk.tensor is not None:
                    if nonfinite and not self._allow_nonfinite:
                        raise _nonfinite(chunk.tensor, nonfinite)
                    nonfinite = 0
                    if not chunk.is_whole:
                        # The small parts: their pieces are not next to each other in time.
                        with self._crew.buffer() as buffer:
                            rest = sum(part.nbytes for part in chunk.tensor.parts[1:])
                            blob.hash_placed(rest, buffer)
        return fingerprints.found

    def _read(self, job: Job) -> list[bytes]:
        """The fingerprints of what a blob would be made from."""
        fingerprints = _Fingerprints(self._reuse)
        for chunk, rows in self._crew.read(job):
            fingerprints.update(chunk, rows)
        return fingerprints.found

    def _commit(self, number: int, path: Path, ref: BlobRef, fingerprints: list[bytes]) -> None:
        try:
            if self._stop.is_set():
                return
            job = self._jobs[number]
            assert ref.size == job.nbytes, f"planned {job.nbytes}, wrote {ref.size}"
            installed = self._writer.commit(path, ref)
            self._reuse.note(job, fingerprints, ref)
            self.done[number] = Written(ref, installed)
            self._tell(BlobDone(_name(job), ref.size, installed))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._fail(error)
        finally:
            self._writer.discard(path)
            self._backlog.release()

    def _fail(self, error: BaseException) -> None:
        # The first one; what follows is that others were stopped.
        self._errors.append(error)
        self._halt()

    def _halt(self) -> None:
        self._stop.set()
        self._agenda.end()

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._listen(event)


class _Fingerprints:
    """One for each source of a blob, from their chunks in order."""

    def __init__(self, reuse: Reuse) -> None:
        self.found: list[bytes] = []
        self._reuse = reuse
        self._current = reuse.fingerprint()

    def update(self, chunk: Chunk, rows: memoryview) -> None:
        self._current.update(rows)
        if chunk.ends_source:
            self.found.append(self._current.digest())
            self._current = self._reuse.fingerprint()


def _name(job: Job) -> str:
    return job.file.path if isinstance(job, FilePlan) else job.name


def _nonfinite(tensor: TensorPlan, count: int) -> InputError:
    target = tensor.quant.name if tensor.quant is not None else tensor.parts[0].dtype
    values = "a value" if count == 1 else f"{count} values"
    return InputError(
        f"`{printable(tensor.name)}` has {values} that {target} cannot hold: NaN, infinite or "
        "too large",
        code="E_QUANT_NONFINITE",
        hint="Keep this tensor as it is, or pass `--allow-nonfinite`",
    )
