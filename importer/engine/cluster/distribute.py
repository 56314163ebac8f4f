"""Make the jobs that are left on a cluster: the client plans and publishes, workers make."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from importer.codecs.base import KernelSpec
from importer.engine.cluster.batches import batches
from importer.engine.cluster.blobs import Batch, Session, make_batch, read_batch
from importer.engine.cluster.connection import connected
from importer.engine.cluster.executor import Cluster
from importer.engine.cluster.fitness import View
from importer.engine.cluster.reports import Reports, interval_of
from importer.engine.ledger import Ledger
from importer.engine.make import kernels_of
from importer.engine.reuse import extents_of
from importer.events import Distributed
from importer.planning.plan import BlobPlan, Job
from store.errors import IntegrityError
from store.writer import Writer

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
        cluster.check(View.of_store(root, writer.folder.name, files))
        session = Session(
            root,
            writer.folder.name,
            ledger.reuse.seed,
            allow_nonfinite,
            writer.fs.is_durable,
            sum((kernels_of(job) for job in jobs), Counter[KernelSpec]()),
            interval_of(cluster.threads),
        )
        ledger.tell(Distributed(cluster.workers, cluster.threads))
        _Distribution(ledger, cluster, session).run()


def _source_nbytes(job: Job) -> int:
    if isinstance(job, BlobPlan):
        return sum(tensor.source_nbytes for tensor in job.tensors)
    return job.nbytes


class _Distribution:
    """The jobs that a ledger has left, on their way over a cluster."""

    def __init__(self, ledger: Ledger, cluster: Cluster, session: Session) -> None:
        self._ledger, self._cluster, self._session = ledger, cluster, session
        self._reports = Reports(
            session.folder, ledger.tell, lambda number: ledger.jobs[number].name
        )

    def run(self) -> None:
        """Recall what the sources gave before, and make the rest."""
        ledger, session = self._ledger, self._session
        expected = ledger.expected
        read = functools.partial(read_batch, session)
        for _, found in self._cluster.run(self._batched(expected), read) if expected else ():
            for number, fingerprints in found:
                ledger.recall(number, fingerprints)
        self._cluster.listen(self._reports.hear)
        make = functools.partial(make_batch, session)
        # A second time: blobs that were gone before they could be taken over. A worker that
        # is retired, or spills what it made to its disk, may let go of them too early.
        for _ in range(_ATTEMPTS):
            if not (left := ledger.left):
                return
            for _, made in self._cluster.run(self._batched(left), make):
                for one in made:
                    self._reports.wrote(one.number, ledger.jobs[one.number].nbytes)
                ledger.adopt(made)
        if ledger.left:
            raise IntegrityError(
                f"{len(ledger.left)} blobs that workers made are not in the store",
                code="E_BLOB_MISSING",
            )

    def _batched(self, numbers: Iterable[int]) -> Iterator[Batch]:
        jobs = ((number, self._ledger.jobs[number]) for number in numbers)
        return batches(jobs, _source_nbytes, self._cluster.threads)
