"""Fill the files of an export on a cluster: the client makes and publishes, workers write."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from importer.codecs.base import KernelSpec
from importer.codecs.runtime import NUMPY
from importer.engine.cluster.batches import batches
from importer.engine.cluster.connection import connected
from importer.engine.cluster.executor import Cluster
from importer.engine.cluster.fitness import View
from importer.engine.cluster.reports import Reports, Teller, interval_of
from importer.engine.cluster.site import Site
from importer.events import Distributed, Event, Listener
from importer.exports.base import WritePlan
from importer.exports.directory import ExportDirectory
from importer.exports.fill import Filler
from importer.exports.jobs import FillJob, kernels_of
from importer.sources.file import SourceFile
from store.fs import File, FileSystem

Batch = tuple[tuple[int, FillJob], ...]
"""Jobs that are done together, each with its number."""


class Session(NamedTuple):
    """What all jobs of one export have in common. It can be pickled.

    Attributes:
        folder: that has the files, until it is published.
        paths: of the files, by their numbers in the plan.
        is_durable: whether files are synced.
        kernels: that the jobs need, with the bytes that each will read.
        interval: seconds between two reports of a task.
    """

    folder: Path
    paths: tuple[str, ...]
    is_durable: bool
    kernels: Counter[KernelSpec]
    interval: float

    @property
    def name(self) -> str:
        """By which messages are told from those of other commands."""
        return self.folder.name


class Shared:
    """Files that the client has made, whole, and that several machines write to.

    A worker opens them for writing alone: a page that an NFS client has read, and of which it
    writes a part, it sends back whole, over what another machine wrote to the rest of it.
    """

    def __init__(self, session: Session) -> None:
        """Write to the files of a session."""
        self.fs = FileSystem()
        self.fs.is_durable = session.is_durable
        self._folder = session.folder

    def open(self, path: str) -> File:
        """Open a file that was made, to be written at any offset by any thread."""
        return self.fs.reopen(self._folder.joinpath(*path.split("/")), reads=False)

    def sync(self, path: str) -> None:
        """Make durable what this machine wrote: no other one can."""
        file = self.open(path)
        try:
            self.fs.sync(file)
        finally:
            self.fs.close(file)


def fill_on_cluster(
    plan: WritePlan,
    directory: ExportDirectory,
    jobs: Sequence[FillJob],
    listen: Listener,
    address: str,
) -> None:
    """Fill the files of a directory on the cluster of the scheduler at `address`.

    Args:
        plan: whose files were made, each of its whole size.
        jobs: that fill them.
        listen: told of everything.

    Raises:
        UsageError: a worker does not fit; nothing was begun.
        NetworkError: the cluster cannot be reached, or not any more.
        IngotError: as `Filler` raises it on a worker.
        OSError: reading or writing failed.
    """
    telling = threading.Lock()

    def tell(event: Event) -> None:
        with telling:
            listen(event)

    with connected(address) as client:
        cluster = Cluster(client, address)
        cluster.check(View.of_directory(directory.path, _sources(jobs)))
        session = Session(
            directory.path,
            tuple(file.path for file in plan.files),
            directory.fs.is_durable,
            kernels_of(plan.pieces),
            interval_of(cluster.threads),
        )
        tell(Distributed(cluster.workers, cluster.threads))
        reports = Reports(session.name, tell, lambda number: _name(jobs[number]))
        cluster.listen(reports.hear)
        fill = functools.partial(fill_batch, session)
        tasks = batches(enumerate(jobs), lambda job: job.nbytes, cluster.threads)
        for _, filled in cluster.run(tasks, fill):
            for number, nbytes in filled:
                reports.wrote(number, nbytes)


def fill_batch(session: Session, batch: Batch) -> tuple[tuple[int, int], ...]:
    """Fill what jobs have places for; return the bytes of each by its number.

    The same bytes come to the same places whoever does it, and however often.

    Raises:
        IngotError: as `Filler` raises it.
        OSError: reading or writing failed, or nobody waits for the export any more.
    """
    site = Site.here()
    with site.at_work() as task:
        needs = any(piece.transcoder.kernels() for _, job in batch for piece in job.pieces)
        runtime = site.runtime(session.kernels, session.name) if needs else NUMPY
        shared = Shared(session)
        teller = Teller(site.tell, session.name, session.interval)
        written: Counter[int] = Counter()
        for number, job in batch:
            tell = functools.partial(_tell, written, number, teller.of(number))
            Filler(shared, session.paths, runtime, task.stop, tell)(job)
        for file in sorted({piece.file for _, job in batch for piece in job.pieces}):
            shared.sync(session.paths[file])
    return tuple((number, written[number]) for number, _ in batch)


def _tell(
    written: Counter[int], number: int, wrote: Callable[[int], None], _: str, nbytes: int
) -> None:
    written[number] += nbytes
    wrote(nbytes)


def _sources(jobs: Sequence[FillJob]) -> set[SourceFile]:
    pieces = (extent.file for job in jobs for piece in job.pieces for extent in piece.extents)
    return {*pieces, *(job.blob for job in jobs if job.blob is not None)}


def _name(job: FillJob) -> str:
    """Return what a job is called: by its first piece, or the blob that it hashes."""
    return job.pieces[0].name if job.pieces else str(job.blob.path if job.blob else "")
