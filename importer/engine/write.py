"""Carry out a plan: take what the store is known to have, and make the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from importer.engine.ledger import Ledger, Written
from importer.engine.reuse import Reuse
from importer.events import Listener
from importer.planning.plan import Job
from store import BlobRef
from store.writer import Writer

_MANY: Final = 10_000
"""Blobs of a plan that took much memory to make: of 100 000 it left 70 MiB free, which glibc
kept, and the import had 272 MiB at its peak."""


def write_blobs(  # noqa: PLR0913 - each is another side of it
    jobs: Sequence[Job],
    writer: Writer,
    reuse: Reuse,
    threads: int,
    listen: Listener,
    *,
    known: Sequence[BlobRef | None] = (),
    allow_nonfinite: bool = False,
    scheduler: str | None = None,
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
        scheduler: address of a Dask cluster that makes what is left, or None.

    Raises:
        NetworkError: the cluster cannot be reached, or not any more.
        InputError: the source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed; nothing is published.
    """
    ledger = Ledger(jobs, writer, reuse, listen)
    ledger.take_known(known)
    if ledger.left and scheduler is not None:
        from importer.engine.cluster.distribute import make_on_cluster  # noqa: PLC0415 - 0.5 s

        make_on_cluster(ledger, writer, scheduler, allow_nonfinite=allow_nonfinite)
    elif ledger.left:
        if len(jobs) > _MANY:
            from store import linux  # noqa: PLC0415 - it imports ctypes

            linux.give_back_memory()
        from importer.engine.schedule import make_left  # noqa: PLC0415 - 5 ms, often not needed

        make_left(ledger, threads, allow_nonfinite=allow_nonfinite)
    written = [done for done in ledger.done if done is not None]
    assert len(written) == len(jobs), "a job was neither written nor failed"
    return written
