"""Write an export: every source is read and hashed once, by those who fill its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from importer.codecs.base import Runtime
from importer.codecs.runtime import prepare
from importer.events import Compiling, Listener, NoKernels, Wrote
from importer.exports.base import ExportFile, WritePlan
from importer.exports.directory import ExportDirectory
from importer.exports.fill import Filler
from importer.exports.jobs import FillJob, jobs_of, kernels_of
from importer.sources.file import SourceFile
from store.parallel import Stop, each

_SYNCING: Final = 8
"""Threads that wait for the disk, at least."""


def write_export(  # noqa: PLR0913 - each is another side of it
    plan: WritePlan,
    directory: ExportDirectory,
    threads: int,
    listen: Listener,
    *,
    hashed: Sequence[SourceFile] = (),
    scheduler: str | None = None,
) -> None:
    """Write every file of an export, and make it durable.

    Args:
        plan: of the export.
        directory: to write to; it is published by the caller.
        threads: that read, convert and write; each holds a few MiB.
        listen: told of every piece.
        hashed: blobs that nothing is copied from, and that are hashed all the same.
        scheduler: address of a Dask cluster that fills the files, or None.

    Raises:
        NetworkError: the cluster cannot be reached, or not any more.
        IntegrityError: a blob of the store is damaged.
        InputError: a source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed.
    """
    jobs = sorted(jobs_of(plan.pieces, hashed), key=lambda job: -job.nbytes)
    if scheduler is None:
        _make(plan, directory)
        _fill(plan, directory, jobs, threads, listen)
    else:
        from importer.exports.distribute import fill_on_cluster  # noqa: PLC0415 - 0.5 s

        _make(plan, directory, is_shared=True)
        fill_on_cluster(plan, directory, jobs, listen, scheduler)
    stop = Stop()

    def commit(file: ExportFile) -> None:
        stop.check()
        directory.commit(file.path, file.nbytes)

    for _ in each(commit, plan.files, max(threads, _SYNCING), stop):
        pass


def _make(plan: WritePlan, directory: ExportDirectory, *, is_shared: bool = False) -> None:
    for file in plan.files:
        known = ((0, file.head), *file.fixed)
        directory.make(file.path, file.nbytes, known, is_shared=is_shared)


def _fill(
    plan: WritePlan,
    directory: ExportDirectory,
    jobs: Sequence[FillJob],
    threads: int,
    listen: Listener,
) -> None:
    stop = Stop()
    paths = [file.path for file in plan.files]

    def tell(name: str, nbytes: int) -> None:
        listen(Wrote(name, nbytes))

    filler = Filler(directory, paths, _prepare(plan, listen), stop, tell)
    for _ in each(filler, jobs, threads, stop):
        pass


def _prepare(plan: WritePlan, listen: Listener) -> Runtime:
    runtime = prepare(kernels_of(plan.pieces), lambda: listen(Compiling()))
    if runtime.problem is not None:
        listen(NoKernels(runtime.problem))
    return runtime
