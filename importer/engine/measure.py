"""Measure every quantized tensor of a model against its source."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.runtime import prepare
from importer.engine.paired import read_pairs
from importer.events import Compiling, Event, Measured, Measuring
from importer.models.quality import Quality
from importer.planning.plan import BlobPlan, Plan
from store import BlobRef, Store
from store.errors import IntegrityError
from store.parallel import Stop, each

if TYPE_CHECKING:
    from importer.codecs.measure import Measure


def measure(
    store: Store,
    plan: Plan,
    refs: Sequence[BlobRef],
    threads: int,
    listen: Callable[[Event], None],
) -> list[Quality]:
    """Compare every quantized tensor of a plan with what the store has of it.

    Sums are taken in an order that is fixed, so that the report is the same on every machine
    and for any number of threads.

    Args:
        refs: the blobs of `plan.blobs`, in that order.

    Raises:
        InputError: the source changed.
        IntegrityError: a blob is not there, or not whole.
    """
    from importer.codecs.measure import kernels  # noqa: PLC0415 - it imports numpy

    jobs = [
        (job, ref)
        for job, ref in zip(plan.blobs, refs, strict=True)
        if any(tensor.codec for tensor in job.tensors)
    ]
    work: Counter[KernelSpec] = Counter()
    count = nbytes = 0
    for tensor in (tensor for job, _ in jobs for tensor in job.tensors):
        if tensor.codec is not None:
            count, nbytes = count + 1, nbytes + tensor.source_nbytes
            for kernel in kernels(tensor.codec):
                work[kernel] += tensor.source_nbytes
    listen(Measuring(count, nbytes))
    runtime = prepare(work, lambda: listen(Compiling()))
    stop, telling = Stop(), threading.Lock()

    def measured(job: BlobPlan, ref: BlobRef) -> list[Quality]:
        sizes = {tensor.name: tensor.source_nbytes for tensor in job.tensors}
        found = []
        for quality in _measure(store, job, ref, runtime, stop):
            found.append(quality)
            with telling:
                listen(Measured(quality.name, sizes[quality.name]))
        return found

    rows = each(lambda pair: measured(*pair), jobs, threads, stop)
    return [quality for blob in rows for quality in blob]


def _measure(
    store: Store, job: BlobPlan, ref: BlobRef, runtime: Runtime, stop: Stop
) -> Iterator[Quality]:
    from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

    current: Measure | None = None
    for pair in read_pairs(store, job.name, job.tensors, ref):
        stop.check()
        chunk, tensor = pair.chunk, pair.chunk.tensor
        if tensor is None or tensor.codec is None:
            continue
        current = current or Measure(tensor.sources[0].decoder, tensor.codec, runtime)
        if not pair.is_complete:
            raise IntegrityError(
                f"blob {ref.digest} has not all of `{tensor.name}`", code="E_BLOB_MISSING"
            )
        current.add(pair.arrays, pair.parts, chunk.shape, chunk.elements)
        if chunk.ends_tensor:
            found, current = current.result(), None
            yield Quality(
                tensor.name,
                str(tensor.quant),
                tensor.shape,
                found if found.is_finite else None,
            )
