"""Measure every quantized tensor of a model against its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from importer.codecs.base import Codec
from importer.codecs.grouped import Grouped
from importer.engine.paired import beside
from importer.events import Compiling, Event, Measuring
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
    from importer.codecs.measure import prepare  # noqa: PLC0415 - it imports numpy

    jobs = [
        (job, ref)
        for job, ref in zip(plan.blobs, refs, strict=True)
        if any(tensor.quant for tensor in job.tensors)
    ]
    quantized = [tensor for job, _ in jobs for tensor in job.tensors if tensor.quant]
    work: Counter[Codec] = Counter()
    for tensor in quantized:
        work[tensor.codec] += tensor.source_nbytes
    listen(Measuring(len(quantized), work.total()))
    prepare(work, lambda: listen(Compiling()))
    stop = Stop()
    found = each(lambda pair: list(_measure(store, *pair, stop)), jobs, threads, stop)
    return [quality for blob in found for quality in blob]


def _measure(store: Store, job: BlobPlan, ref: BlobRef, stop: Stop) -> Iterator[Quality]:
    from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

    current: Measure | None = None
    for pair in beside(store, job, ref):
        stop.check()
        chunk, tensor = pair.chunk, pair.chunk.tensor
        if tensor is None or not isinstance(chunk.codec, Grouped):
            continue
        current = current or Measure(chunk.codec)
        if not pair.is_complete:
            raise IntegrityError(
                f"blob {ref.digest} has not all of `{tensor.name}`", code="E_BLOB_MISSING"
            )
        current.add(pair.rows, pair.parts)
        if chunk.ends_tensor:
            found, current = current.result(), None
            yield Quality(
                tensor.name,
                str(tensor.quant),
                tensor.shape,
                found if found.is_finite else None,
            )
