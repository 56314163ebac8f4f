"""Make one blob: a pure function of a job, which runs in a thread or on another machine."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import xxhash

from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.runtime import NUMPY
from importer.engine.chunks import Chunk
from importer.engine.reuse import Fingerprint
from importer.engine.sink import Sink
from importer.engine.workers import WorkerPool
from importer.planning.plan import BlobPlan, Job, TensorPlan
from store import BlobRef, CommitOutcome
from store.blob_writer import BlobWriter
from store.errors import InputError
from store.fs import FileSystem
from store.parallel import Stop
from store.status import Status
from store.text import printable

_WORTH_RESERVING: Final = 1 << 18
"""Bytes of a blob from which on less work in writing outweighs one more call."""

_WORTH_TELLING: Final = 4 << 20
"""Bytes between two reports: one for each chunk took 4 % of an import to int4 of 2 GB."""

Tell = Callable[[int], None]
"""Told of bytes that were written since it was told last."""


class MakeJob(NamedTuple):
    """Everything that decides one blob, and the file that it is written to. It can be pickled.

    Attributes:
        number: of the job in its plan.
        plan: of the blob, or of a file that is kept.
        path: of an empty file, which nobody else writes to.
        seed: of fingerprints.
        allow_nonfinite: quantize tensors with NaNs and infinities, too.
    """

    number: int
    plan: Job
    path: Path
    seed: int
    allow_nonfinite: bool = False


class Made(NamedTuple):
    """A blob that was written, and is neither durable nor in the store yet.

    Attributes:
        fingerprints: of each stored array that it was made from, in the order of the plan.
    """

    ref: BlobRef
    fingerprints: tuple[Fingerprint, ...]


class Stored(NamedTuple):
    """A blob that another writer has put into the store, and holds there for now.

    Attributes:
        number: of the job in its plan.
        status: of the blob's file; None where it is not durable.
    """

    number: int
    made: Made
    outcome: CommitOutcome
    status: Status | None


def make_blob(
    job: MakeJob,
    fs: FileSystem | None = None,
    workers: WorkerPool | None = None,
    runtime: Runtime = NUMPY,
    tell: Tell = lambda _: None,
) -> Made:
    """Read a blob's sources, convert them, and write and hash what they become.

    The job alone decides the bytes: workers and kernels make it quicker. Memory: some chunks
    of 1 MiB at most, however large the blob is.

    Args:
        job: what to make, and where.
        fs: the door to the file system; by default the real one.
        workers: that convert chunks of large blobs ahead; by default this thread does all.
        runtime: the kernels to convert with.
        tell: called with how many bytes were written, from time to time.

    Raises:
        InputError: a source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed; the file is of no use.
    """
    if workers is None:
        with WorkerPool(1, Stop()) as alone:
            return make_blob(job, fs, alone, runtime, tell)
    blob = BlobWriter(fs or FileSystem(), job.path)
    plan = job.plan
    try:
        if plan.nbytes >= _WORTH_RESERVING:
            blob.reserve(plan.nbytes)
        if isinstance(plan, BlobPlan):
            blob.write(plan.header)
        fingerprints = _fill(job, blob, workers, runtime, tell)
        return Made(blob.finish(), fingerprints)
    finally:
        blob.close()


def make_into(
    sink: Sink, job: MakeJob, workers: WorkerPool, runtime: Runtime, tell: Tell
) -> Made:
    """Make a blob in a file that `sink` opened for it; a failure leaves no file behind."""
    try:
        return make_blob(job, sink.fs, workers, runtime, tell)
    except BaseException:
        sink.discard(job.path)
        raise


def kernels_of(job: Job) -> Counter[KernelSpec]:
    """Return the kernels that make a job fast, with the bytes that each will read."""
    work: Counter[KernelSpec] = Counter()
    for tensor in job.tensors if isinstance(job, BlobPlan) else ():
        for kernel in tensor.transcoder.kernels():
            work[kernel] += tensor.source_nbytes
    return work


def fingerprint_sources(plan: Job, seed: int, workers: WorkerPool) -> tuple[Fingerprint, ...]:
    """Read what a blob would be made from, and write nothing.

    That costs a tenth of hashing and writing.
    """
    fingerprints = _Fingerprints(seed)
    for chunk, arrays in workers.read(plan):
        fingerprints.update(chunk, arrays)
    return tuple(fingerprints.found)


def _fill(
    job: MakeJob, blob: BlobWriter, workers: WorkerPool, runtime: Runtime, tell: Tell
) -> tuple[Fingerprint, ...]:
    fingerprints = _Fingerprints(job.seed)
    nonfinite = told = 0
    # Closed before the blob is: those who work ahead write to its file.
    with contextlib.closing(workers.place(job.plan, blob, runtime)) as placed:
        for chunk, arrays, encoded, buffer in placed:
            fingerprints.update(chunk, arrays)
            for part in encoded.parts[: None if chunk.is_whole else 1]:
                blob.hash(part)
            nonfinite += encoded.nonfinite
            if blob.size - told >= _WORTH_TELLING:
                tell(blob.size - told)
                told = blob.size
            if chunk.ends_tensor and chunk.tensor is not None:
                if nonfinite and not job.allow_nonfinite:
                    raise _nonfinite(chunk.tensor, nonfinite)
                nonfinite = 0
                if not chunk.is_whole:
                    # The small parts: their pieces are not next to each other in time. What
                    # the buffer holds is hashed already, and one more per thread took 1 MiB.
                    rest = sum(part.nbytes for part in chunk.tensor.parts[1:])
                    blob.hash_placed(rest, buffer)
    tell(blob.size - told)
    return tuple(fingerprints.found)


class _Fingerprints:
    """One for each stored array of a blob's sources, from their chunks in order."""

    def __init__(self, seed: int) -> None:
        self.found: list[Fingerprint] = []
        self._seed = seed
        self._arrays: list[_ArrayFingerprint] = []

    def update(self, chunk: Chunk, arrays: Sequence[memoryview]) -> None:
        """Take the bytes of a chunk; the last one of a source completes its fingerprints."""
        if not self._arrays:
            self._arrays = [_ArrayFingerprint(self._seed) for _ in arrays]
        for array, read, view in zip(self._arrays, chunk.reads, arrays, strict=True):
            if read.span.runs > 1:
                array.is_in_order = False
            array.update(read.span.begin, view)
        if chunk.ends_source:
            self.found += [array.result() for array in self._arrays]
            self._arrays = []


class _ArrayFingerprint:
    def __init__(self, seed: int) -> None:
        self.is_in_order = True
        self._hash = xxhash.xxh3_128(seed=seed)
        self._done = 0

    def update(self, begin: int, view: memoryview) -> None:
        if self.is_in_order:
            # Bytes that every chunk needs, such as the scale of a whole tensor, count once.
            self.is_in_order = begin <= self._done
            view = view[self._done - begin :] if self.is_in_order else view
            self._done += len(view)
        self._hash.update(view)

    def result(self) -> Fingerprint:
        return Fingerprint(self._hash.digest(), self.is_in_order)


def _nonfinite(tensor: TensorPlan, count: int) -> InputError:
    target = tensor.quant.name if tensor.quant is not None else tensor.parts[0].dtype
    values = "a value" if count == 1 else f"{count} values"
    return InputError(
        f"`{printable(tensor.name)}` has {values} that {target} cannot hold: NaN, infinite or "
        "too large",
        code="E_QUANT_NONFINITE",
        facts={"tensor": tensor.name},
    )
