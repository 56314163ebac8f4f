"""Carry out a plan: recall what was made before, make the rest, and commit it to the sink."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from importer.codecs.aside import aside
from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.runtime import NUMPY, KernelRuntime, prepare
from importer.engine.committer import Committer
from importer.engine.executor import Executor, Threads
from importer.engine.make import Made, MakeJob, fingerprint_sources, make_blob
from importer.engine.reuse import Fingerprint, Reuse
from importer.engine.sink import Sink
from importer.engine.workers import WorkerPool
from importer.events import BlobDone, Compiling, Event, Listener, NoKernels, Wrote
from importer.planning.plan import BlobPlan, Job
from store import BlobRef, CommitOutcome
from store.parallel import Stop
from store.writer import Writer

_AT_ONCE: Final = 256
"""Blobs that are reused under one lock, which gc waits for: that takes 5 ms."""


class Written(NamedTuple):
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
    """Write every blob and file of a plan; return what became of each, in the plan's order.

    What the store is known to have is not made again. Then sources are read of which a blob
    with the same header was made before: a file that was only touched, moved or fetched again
    gives the same blob. Of the rest plain tensors come first, while kernels are loaded, and
    in each half the largest, so that no thread is left alone with a long one at the end.

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
    owner = _Owner(jobs, writer, reuse, listen, allow_nonfinite=allow_nonfinite)
    owner.take_known(known)
    owner.make_rest(threads)
    written = [done for done in owner.done if done is not None]
    assert len(written) == len(jobs), "a job was neither written nor failed"
    return written


class _Owner:
    """Gives out jobs, and commits what was made: nobody else touches the store."""

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
        self._sink: Sink = writer
        self._reuse = reuse
        self._listen = listen
        self._allow_nonfinite = allow_nonfinite
        self._telling = threading.Lock()
        self._stop = Stop()

    @property
    def left(self) -> list[int]:
        """The jobs that are not done, the largest first."""
        numbers = (number for number, done in enumerate(self.done) if done is None)
        return sorted(numbers, key=lambda number: (-self._jobs[number].nbytes, number))

    def take_known(self, known: Sequence[BlobRef | None]) -> None:
        """Take what the store is known to have."""
        found = [(number, ref) for number, ref in enumerate(known) if ref is not None]
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            taken = self._writer.reuse([ref for _, ref in some])
            for (number, ref), is_there in zip(some, taken, strict=True):
                if is_there:
                    self._reused(number, ref)

    def make_rest(self, threads: int) -> None:
        """Make what is left, with `threads` that compute."""
        if not self.left:
            return
        count = min(threads, len(self.left))
        with WorkerPool(threads, self._stop) as workers:
            executor = Threads(count, workers, self._stop)
            self._recall(executor, workers)
            needs = {number: _kernels(self._jobs[number]) for number in self.left}
            plain = [number for number, kernels in needs.items() if not kernels]
            rest = [number for number, kernels in needs.items() if kernels]
            # What needs no kernels comes first, while these are loaded.
            loading = self._load_kernels(needs.values()) if rest else None
            make = functools.partial(self._make, executor, workers, count)
            if plain:
                make(plain, NUMPY)
            if loading is not None:
                make(rest, loading.result())

    def _recall(self, executor: Executor, workers: WorkerPool) -> None:
        """Look up what the sources gave before, where it is worth reading them."""
        expected = [number for number in self.left if self._reuse.expects(self._jobs[number])]
        seed = self._reuse.seed

        def read(number: int) -> tuple[Fingerprint, ...]:
            return fingerprint_sources(self._jobs[number], seed, workers)

        for number, fingerprints in executor.run(expected, read) if expected else ():
            job = self._jobs[number]
            ref = self._reuse.look_up(job, fingerprints)
            if ref is not None and self._writer.reuse([ref])[0]:
                self._reused(number, ref)
                self._reuse.note(job, fingerprints, ref)

    def _load_kernels(self, needs: Iterable[Counter[KernelSpec]]) -> Future[KernelRuntime]:
        work: Counter[KernelSpec] = Counter()
        for kernels in needs:
            work.update(kernels)

        def load() -> KernelRuntime:
            runtime = prepare(work, lambda: self._tell(Compiling()))
            if runtime.problem is not None:
                self._tell(NoKernels(runtime.problem))
            return runtime

        return aside(load)

    def _make(
        self,
        executor: Executor,
        workers: WorkerPool,
        count: int,
        numbers: Sequence[int],
        runtime: Runtime,
    ) -> None:
        with Committer(self._commit, count, self._stop) as committer:

            def jobs() -> Iterator[MakeJob]:
                for number in numbers:
                    committer.admit()
                    path, seed = self._sink.open(), self._reuse.seed
                    plan = self._jobs[number]
                    yield MakeJob(number, plan, path, seed, self._allow_nonfinite)

            def make(job: MakeJob) -> Made:
                tell = functools.partial(self._wrote, job.plan.name)
                try:
                    return make_blob(job, self._sink.fs, workers, runtime, tell)
                except BaseException:
                    self._sink.discard(job.path)
                    raise

            for job, made in executor.run(jobs(), make):
                committer.submit(job, made)

    def _commit(self, job: MakeJob, made: Made) -> None:
        assert made.ref.size == job.plan.nbytes, f"{made.ref.size} of {job.plan.nbytes} bytes"
        try:
            outcome = self._sink.commit(job.path, made.ref)
        finally:
            self._sink.discard(job.path)  # unless it was committed
        self._reuse.note(job.plan, made.fingerprints, made.ref)
        self.done[job.number] = Written(made.ref, outcome)
        self._tell(BlobDone(job.plan.name, made.ref.size, outcome))

    def _reused(self, number: int, ref: BlobRef) -> None:
        name = self._jobs[number].name
        self.done[number] = Written(ref, CommitOutcome.REUSED)
        self._wrote(name, ref.size)
        self._tell(BlobDone(name, ref.size, CommitOutcome.REUSED))

    def _wrote(self, name: str, nbytes: int) -> None:
        self._tell(Wrote(name, nbytes))

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._listen(event)


def _kernels(job: Job) -> Counter[KernelSpec]:
    """Return the kernels that make a job fast, with the bytes that each will read."""
    work: Counter[KernelSpec] = Counter()
    for tensor in job.tensors if isinstance(job, BlobPlan) else ():
        for kernel in tensor.transcoder.kernels():
            work[kernel] += tensor.source_nbytes
    return work
