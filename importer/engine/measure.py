"""Measure every tensor of a model that was rounded against its source."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.base import Codec, Decoder, KernelSpec, Runtime
from importer.codecs.cast import Rounded
from importer.codecs.plain import Plain
from importer.codecs.runtime import prepare
from importer.engine.paired import read_pairs
from importer.events import Compiling, Event, Measured, Measuring
from importer.models.quality import Quality
from importer.planning.plan import Plan, TensorPlan
from store import BlobRef, Store
from store.errors import IntegrityError
from store.parallel import Stop, each

if TYPE_CHECKING:
    from importer.codecs.measure import Measure

_WIDE: Final = "F32"


class RoundedBlob(NamedTuple):
    """A blob, and those of its tensors that were rounded.

    Attributes:
        layer: its name.
    """

    layer: str
    tensors: tuple[TensorPlan, ...]
    ref: BlobRef


def measure(
    store: Store,
    plan: Plan,
    refs: Sequence[BlobRef],
    threads: int,
    listen: Callable[[Event], None],
) -> list[Quality]:
    """Compare every rounded tensor of a plan with what the store has of it.

    Sums are taken in an order that is fixed, so that the report is the same on every machine
    and for any number of threads.

    Args:
        refs: the blobs of `plan.blobs`, in that order.

    Raises:
        InputError: the source changed.
        IntegrityError: a blob is not there, or not whole.
    """
    jobs = [
        RoundedBlob(job.name, rounded, ref)
        for job, ref in zip(plan.blobs, refs, strict=True)
        if (rounded := tuple(tensor for tensor in job.tensors if tensor.rounded_to))
    ]
    tensors = [tensor for job in jobs for tensor in job.tensors]
    listen(Measuring(len(tensors), sum(tensor.source_nbytes for tensor in tensors)))
    runtime = prepare(kernels_for(tensors), lambda: listen(Compiling()))
    stop, telling = Stop(), threading.Lock()

    def measured(job: RoundedBlob) -> list[Quality]:
        sizes = {tensor.name: tensor.source_nbytes for tensor in job.tensors}
        found = []
        for quality in measure_blob(store, job, runtime, stop):
            found.append(quality)
            with telling:
                listen(Measured(quality.name, sizes[quality.name]))
        return found

    rows = each(measured, jobs, threads, stop)
    return [quality for blob in rows for quality in blob]


def kernels_for(tensors: Iterable[TensorPlan]) -> Counter[KernelSpec]:
    """Return the kernels that make measuring tensors fast, with the bytes that each reads."""
    from importer.codecs.measure import kernels  # noqa: PLC0415 - it imports numpy

    work: Counter[KernelSpec] = Counter()
    for tensor in tensors:
        for kernel in kernels(decoders_of(tensor)[1]):
            work[kernel] += tensor.source_nbytes
    return work


def measure_blob(
    store: Store, job: RoundedBlob, runtime: Runtime, stop: Stop
) -> Iterator[Quality]:
    """Compare the rounded tensors of a blob with their sources.

    Raises:
        InputError: the source changed.
        IntegrityError: the blob is not there, or not whole.
    """
    from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

    current: Measure | None = None
    for pair in read_pairs(store, job.layer, job.tensors, job.ref):
        stop.check()
        chunk, tensor = pair.chunk, pair.chunk.tensor
        assert tensor is not None, "files are not rounded"
        current = current or Measure(*decoders_of(tensor), runtime)
        if not pair.is_complete:
            raise IntegrityError(
                f"blob {job.ref.digest} has not all of `{tensor.name}`", code="E_BLOB_MISSING"
            )
        current.add(pair.arrays, pair.parts, chunk.shape, chunk.elements)
        if chunk.ends_tensor:
            found, current = current.result(), None
            yield Quality(
                tensor.name,
                tensor.rounded_to,
                tensor.shape,
                found if found.is_finite else None,
            )


def decoders_of(tensor: TensorPlan) -> tuple[Decoder, Codec | Rounded]:
    """Return what reads the values of the source, and what reads those that they became."""
    source = tensor.sources[0].decoder
    if tensor.codec is not None:
        return source, tensor.codec
    # Both as F32, which holds what is left of every other float.
    return Rounded(source, _WIDE), Rounded(Plain(tensor.parts[0].dtype), _WIDE)
