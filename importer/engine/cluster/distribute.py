"""Make the jobs that are left on a cluster: the client plans and publishes, workers make."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from importer.codecs.base import KernelSpec
from importer.engine.cluster.blobs import Batch, Session, make_batch, read_batch
from importer.engine.cluster.connection import connected
from importer.engine.cluster.executor import Cluster
from importer.engine.cluster.fitness import View
from importer.engine.ledger import Ledger
from importer.engine.make import kernels_of
from importer.engine.reuse import extents_of
from importer.events import Compiling, Distributed, NoKernels
from importer.planning.plan import BlobPlan, Job
from store.errors import IntegrityError
from store.writer import Writer

SMALLEST: Final = 64 << 20
"""Bytes of the source that a job has at least, where there are so many: handing out a job
takes milliseconds, which making 64 MB takes hundreds of."""
MOST: Final = 4096
"""Blobs of a job: their plans are sent along, 1 to 2 KiB each."""
_INTERVAL: Final = 0.25
"""Seconds between two reports of a thread, at least."""
_REPORTS: Final = 100
"""Reports a second that the scheduler passes on, at most."""
_ATTEMPTS: Final = 3


def make_on_cluster(
    ledger: Ledger, writer: Writer, address: str, *, allow_nonfinite: bool
) -> None:
    """Make what a ledger has left on the cluster of the scheduler at `address`.

    Raises:
        UsageError: a worker does not fit; nothing was begun.
        NetworkError: the cluster cannot be reached, or not any more.
        InputError: the source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed.
    """
    jobs = [ledger.jobs[number] for number in ledger.left]
    root = writer.folder.parents[1]
    with connected(address) as client:
        cluster = Cluster(client, address)
        files = {extent.file for job in jobs for extent in extents_of(job)}
        stand = (file for file in files if file.maker is None)
        in_order = sorted(stand, key=lambda file: file.path)
        cluster.check(View.of(root, writer.folder.name, in_order))
        session = Session(
            root,
            writer.folder.name,
            ledger.reuse.seed,
            allow_nonfinite,
            writer.fs.is_durable,
            sum((kernels_of(job) for job in jobs), Counter[KernelSpec]()),
            max(_INTERVAL, cluster.threads / _REPORTS),
        )
        ledger.tell(Distributed(cluster.workers, cluster.threads))
        _Distribution(ledger, cluster, session).run()


def batches(jobs: Iterable[tuple[int, Job]]) -> Iterator[Batch]:
    """Put jobs together until they read at least 64 MiB; the largest go first, alone."""
    batch: list[tuple[int, Job]] = []
    nbytes = 0
    for number, job in sorted(jobs, key=lambda one: (-_source_nbytes(one[1]), one[0])):
        batch.append((number, job))
        nbytes += _source_nbytes(job)
        if nbytes >= SMALLEST or len(batch) == MOST:
            yield tuple(batch)
            batch, nbytes = [], 0
    if batch:
        yield tuple(batch)


def _source_nbytes(job: Job) -> int:
    if isinstance(job, BlobPlan):
        return sum(tensor.source_nbytes for tensor in job.tensors)
    return job.nbytes


class _Distribution:
    """The jobs that a ledger has left, on their way over a cluster."""

    def __init__(self, ledger: Ledger, cluster: Cluster, session: Session) -> None:
        self._ledger, self._cluster, self._session = ledger, cluster, session
        self._told: Counter[int] = Counter()
        self._telling = threading.Lock()
        self._is_compiling = False

    def run(self) -> None:
        """Recall what the sources gave before, and make the rest."""
        ledger, session = self._ledger, self._session
        expected = [n for n in ledger.left if ledger.reuse.expects(ledger.jobs[n])]
        read = functools.partial(read_batch, session)
        for _, found in self._cluster.run(self._batched(expected), read) if expected else ():
            for number, fingerprints in found:
                ledger.recall(number, fingerprints)
        self._cluster.listen(self._heard)
        make = functools.partial(make_batch, session)
        # A second time: blobs that were gone before they could be taken over. A worker that
        # is retired, or spills what it made to its disk, may let go of them too early.
        for _ in range(_ATTEMPTS):
            if not (left := ledger.left):
                return
            for _, made in self._cluster.run(self._batched(left), make):
                for one in made:
                    self._tell_wrote(one.number, ledger.jobs[one.number].nbytes)
                ledger.adopt(made)
        if ledger.left:
            raise IntegrityError(
                f"{len(ledger.left)} blobs that workers made are not in the store",
                code="E_BLOB_MISSING",
            )

    def _batched(self, numbers: Iterable[int]) -> Iterator[Batch]:
        return batches((number, self._ledger.jobs[number]) for number in numbers)

    def _heard(self, message: dict[str, Any]) -> None:
        """Take what a worker tells, in a thread of the client."""
        if message.get("session") != self._session.folder:
            return  # another import on the same cluster
        for number, so_far in message.get("so_far", ()):
            self._tell_wrote(number, so_far)
        if message.get("compiling") and not self._is_compiling:
            self._is_compiling = True
            self._ledger.tell(Compiling())
        if problem := message.get("problem"):
            self._ledger.tell(NoKernels(problem))

    def _tell_wrote(self, number: int, so_far: int) -> None:
        """Tell how many bytes of a blob are written; each counts once, whoever wrote it."""
        with self._telling:
            more = so_far - self._told[number]
            if more > 0:
                self._told[number] = so_far
                self._ledger.wrote(self._ledger.jobs[number].name, more)
