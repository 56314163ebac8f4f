"""What workers of a cluster do: make the blobs of a batch, or read what they are made from."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from importer.codecs.base import KernelSpec
from importer.codecs.runtime import NUMPY
from importer.engine.cluster.reports import Teller
from importer.engine.cluster.site import Site
from importer.engine.committer import Committer
from importer.engine.make import (
    Made,
    MakeJob,
    Stored,
    fingerprint_sources,
    kernels_of,
    make_into,
)
from importer.engine.reuse import Fingerprint
from importer.engine.workers import WorkerPool
from importer.planning.plan import Job
from store import Store
from store.errors import StorageError
from store.fs import FileSystem
from store.memo import Memo
from store.parallel import StoppedError
from store.writer_folder import PURPOSE

Batch = tuple[tuple[int, Job], ...]
"""Jobs of a plan that are done together, each with its number."""


class Session(NamedTuple):
    """What all jobs of one import have in common. It can be pickled.

    Attributes:
        root: of the store.
        folder: in its `tmp/`, of the writer who takes over what is made.
        seed: of fingerprints.
        allow_nonfinite: quantize tensors with NaNs and infinities, too.
        is_durable: whether blobs are synced.
        kernels: that the jobs need, with the bytes that each will read.
        interval: seconds between two reports of a job.
    """

    root: Path
    folder: str
    seed: int
    allow_nonfinite: bool
    is_durable: bool
    kernels: Counter[KernelSpec]
    interval: float


def make_batch(session: Session, batch: Batch) -> tuple[Stored, ...]:
    """Make blobs and put them into the store; the worker's pins hold them for its task's life.

    A worker is a writer of its own: only the machine that wrote a file can sync it.

    Raises:
        StoppedError: nobody wants them any more.
        InputError: a source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed.
    """
    site = Site.here()
    stored: dict[int, Stored] = {}
    with site.at_work() as task, contextlib.ExitStack() as held:
        store = held.enter_context(_opened(session))
        writer = held.enter_context(store.writing(_purpose(session)))
        needs = any(kernels_of(plan) for _, plan in batch)
        runtime = site.runtime(session.kernels, session.folder) if needs else NUMPY
        teller = Teller(site.tell, session.folder, session.interval)

        def commit(job: MakeJob, made: Made) -> None:
            try:
                outcome = writer.commit(job.path, made.ref)
            finally:
                writer.discard(job.path)  # unless it was committed
            seen = store.blobs.status(made.ref.digest) if session.is_durable else None
            stored[job.number] = Stored(job.number, made, outcome, seen)

        with (
            WorkerPool(task.threads, task.stop) as workers,
            Committer(commit, 1, task.stop) as committer,
            workers.at_work(),
        ):
            for number, plan in batch:
                committer.admit()
                path = writer.open()
                job = MakeJob(number, plan, path, session.seed, session.allow_nonfinite)
                made = make_into(writer, job, workers, runtime, teller.of(number))
                committer.submit(job, made)
        writer.sync()
        task.hold(held.pop_all())
    return tuple(stored[number] for number, _ in batch)


def read_batch(
    session: Session, batch: Batch
) -> tuple[tuple[int, tuple[Fingerprint, ...]], ...]:
    """Read what blobs would be made from; return the fingerprints by the number of the job."""
    with Site.here().at_work() as task, WorkerPool(1, task.stop) as workers:
        return tuple(
            (number, fingerprint_sources(plan, session.seed, workers)) for number, plan in batch
        )


def _opened(session: Session) -> Store:
    fs = FileSystem()
    fs.is_durable = session.is_durable
    # The client has judged this directory. Its memo is the client's alone to write.
    return Store(session.root, fs, Memo(None), allow_unsafe=True, allow_foreign=True)


def _purpose(session: Session) -> str:
    """Return what the client makes.

    Raises:
        StoppedError: there is no client any more.
        StorageError: there is no store any more; one must not come up on a worker's own disk.
    """
    folder = session.root / "tmp" / session.folder
    try:
        return (folder / PURPOSE).read_text(encoding="utf-8")
    except FileNotFoundError:
        if folder.parent.is_dir():
            raise StoppedError from None
        raise StorageError(
            f"the store `{session.root}` is not there on worker {Site.here().address}",
            code="E_CLUSTER_PATH",
        ) from None
