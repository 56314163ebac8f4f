"""Measure every quantized tensor of a model against its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from importer.beside import beside
from importer.codecs.grouped import Grouped
from importer.events import Compiling, Event, Measuring
from importer.plan import BlobPlan, Plan
from importer.quality import Quality
from store import BlobRef, Store
from store.errors import IntegrityError

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
    nbytes = sum(tensor.source_nbytes for tensor in quantized)
    listen(Measuring(len(quantized), nbytes))
    prepare({tensor.codec for tensor in quantized}, nbytes, lambda: listen(Compiling()))
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda pair: list(_measure(store, *pair)), jobs)
        return [quality for blob in found for quality in blob]


def _measure(store: Store, job: BlobPlan, ref: BlobRef) -> Iterator[Quality]:
    from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

    measures: dict[str, Measure] = {}
    for pair in beside(store, job, ref):
        chunk, tensor = pair.chunk, pair.chunk.tensor
        if tensor is None or not isinstance(chunk.codec, Grouped):
            continue
        measure = measures.setdefault(tensor.name, Measure(chunk.codec))
        if not pair.is_complete:
            raise IntegrityError(
                f"blob {ref.digest} has not all of `{tensor.name}`", code="E_BLOB_MISSING"
            )
        measure.add(pair.rows, pair.parts)
        if chunk.ends_tensor:
            found = measure.result()
            yield Quality(
                tensor.name,
                str(tensor.quant),
                tensor.shape,
                found if found.is_finite else None,
            )
