"""What each type would lose of each tensor, measured on a sample of its rows.

The sample is fixed by the shape alone: runs of whole rows, about one of 16, and all of a small
tensor. What was measured is kept in the memo of the store, under fingerprints of the bytes that
were sampled; where a source is unchanged not even these are read again.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import REVISION, KernelSpec, Runtime
from importer.codecs.runtime import prepare
from importer.engine.chunks import Read
from importer.engine.measure import decoders_of, kernels_for
from importer.engine.reader import ChunkReader
from importer.engine.reuse import identity_of
from importer.events import Compiling, Event, Measured, Sampling
from importer.planning.plan import TensorPlan
from importer.sources.tensor import SourceTensor
from store import Store
from store.memo import GRANULARITY_NS
from store.parallel import Stop, each
from store.tensorfile import elements

_SHARE: Final = 16
"""One of so many runs is looked at: estimates are off by 3 % (standard deviation), at most 9,
measured on MiniLM."""
_RUNS: Final = 64
"""That are looked at where a tensor has as many."""
_RUN: Final = 1 << 14
"""Elements of a run: below that numpy's calls take longer than the work."""
_GROUPS: Final = 128
"""Elements of the largest group: a multiple can be encoded alone as every type."""
_ROW: Final = struct.Struct("<8sd")
_CURVES: Final = 1
"""Revision of the sample and of what is kept of it."""


class _Sample(NamedTuple):
    """Runs of elements of a tensor, and the bytes of each."""

    tensor: SourceTensor
    runs: tuple[range, ...]

    @classmethod
    def of(cls, tensor: SourceTensor) -> _Sample:
        count = elements(tensor.shape)
        unit = math.lcm(tensor.shape[-1], tensor.decoder.unit(tensor.shape), _GROUPS)
        run = -(-_RUN // unit) * unit
        places = count // run
        step = min(_SHARE, places // _RUNS)
        if step <= 1:
            return cls(
                tensor, tuple(range(at, min(at + run, count)) for at in range(0, count, run))
            )
        starts = range(step // 2, places, step)
        return cls(tensor, tuple(range(at * run, (at + 1) * run) for at in starts))

    def reads(self, run: range) -> Iterator[Read]:
        spans = self.tensor.decoder.spans(self.tensor.shape, run)
        for array, span in zip(self.tensor.arrays, spans, strict=True):
            yield Read(array.file, array.offset, span)

    def arrays(self, run: range, reader: ChunkReader) -> list[memoryview]:
        """Read the bytes of a run, of each stored array."""
        found = []
        for read in self.reads(run):
            found.append(memoryview(bytearray(read.span.nbytes)))
            reader.fill(read, found[-1])
        return found


PlansOf = Callable[[SourceTensor], Iterable[TensorPlan]]


def measure_curves(  # noqa: PLR0913 - what is measured, with what, and who is told
    store: Store,
    tensors: Sequence[SourceTensor],
    plans_of: PlansOf,
    threads: int,
    listen: Callable[[Event], None],
    *,
    trusts: bool,
) -> Iterator[tuple[float, ...]]:
    """Yield for each tensor the relative squared error of each of its plans.

    That is the sum of the squared errors over the sum of the squared values, of the sample. A
    sample whose sums are not finite has 1: what it loses is not known.

    Args:
        store: whose memo keeps what was measured.
        tensors: to measure.
        plans_of: gives what a tensor may become, each rounded or not.
        threads: that measure.
        listen: told of each tensor.
        trusts: believe that a file that looks unchanged is.

    Raises:
        InputError: the source changed.
    """
    memory = _Memory(store, tensors, trusts=trusts)
    nbytes = list(map(_sampled_nbytes, tensors))
    listen(Sampling(len(tensors), sum(nbytes)))
    runtime = prepare(_kernels(tensors, plans_of), lambda: listen(Compiling()))
    stop = Stop()

    def work(tensor: SourceTensor) -> tuple[float, ...]:
        return _curve(tensor, tuple(plans_of(tensor)), memory, runtime, stop)

    found = each(work, tensors, threads, stop)
    for tensor, size, errors in zip(tensors, nbytes, found, strict=True):
        listen(Measured(tensor.name, size))
        yield errors
    store.memo.save()


def _sampled_nbytes(tensor: SourceTensor) -> int:
    sample = _Sample.of(tensor)
    first = sum(read.span.nbytes for read in sample.reads(sample.runs[0]))
    return first * len(sample.runs)


def _kernels(tensors: Iterable[SourceTensor], plans_of: PlansOf) -> Counter[KernelSpec]:
    """Return the kernels that make this fast, with the bytes that each reads."""
    # Tensors that are stored alike, and weighed alike, have the same.
    alike: dict[Hashable, Counter[KernelSpec]] = {}
    work: Counter[KernelSpec] = Counter()
    for tensor in tensors:
        rounded = (plan for plan in plans_of(tensor) if plan.rounded_to)
        if (first := next(rounded, None)) is None:
            continue
        key = tensor.decoder, first.transcoder.kernels()
        if key not in alike:
            alike[key] = Counter(
                kernel
                for plan in (first, *rounded)
                for kernel in (*plan.transcoder.kernels(), *kernels_for([plan]))
            )
        nbytes = _sampled_nbytes(tensor)
        for kernel, times in alike[key].items():
            work[kernel] += nbytes * times
    return work


def _curve(
    tensor: SourceTensor,
    plans: Sequence[TensorPlan],
    memory: _Memory,
    runtime: Runtime,
    stop: Stop,
) -> tuple[float, ...]:
    sample = _Sample.of(tensor)
    with ChunkReader() as reader:
        fingerprint = memory.fingerprint(sample)
        if fingerprint is None:
            fingerprint = _fingerprint(sample, reader)
            memory.note_fingerprint(sample, fingerprint)
        known = memory.curve(fingerprint, tensor)
        missing = [plan for plan in plans if plan.rounded_to and _form(plan) not in known]
        if missing:
            known = {**known, **_measured(sample, missing, reader, runtime, stop)}
            memory.note_curve(fingerprint, tensor, known)
    return tuple(known[_form(plan)] if plan.rounded_to else 0.0 for plan in plans)


def _measured(
    sample: _Sample,
    plans: Sequence[TensorPlan],
    reader: ChunkReader,
    runtime: Runtime,
    stop: Stop,
) -> dict[bytes, float]:
    from importer.codecs.measure import Measure  # noqa: PLC0415 - it imports numpy

    measures = [Measure(*decoders_of(plan), runtime) for plan in plans]
    shape = sample.tensor.shape
    for run in sample.runs:
        stop.check()
        arrays = sample.arrays(run, reader)
        for plan, measure in zip(plans, measures, strict=True):
            made = plan.transcoder.convert(arrays, shape, run, runtime)
            measure.add(arrays, made.parts, shape, run)
    found = {}
    for plan, measure in zip(plans, measures, strict=True):
        sums = measure.result()
        share = sums.sum_err2 / sums.sum_x2 if sums.is_finite and sums.sum_x2 else 0.0
        found[_form(plan)] = share if sums.is_finite else 1.0
    return found


def _fingerprint(sample: _Sample, reader: ChunkReader) -> bytes:
    """Return a SHA-256 of the sampled bytes of each stored array."""
    prints = [hashlib.sha256() for _ in sample.tensor.arrays]
    for run in sample.runs:
        for one, data in zip(prints, sample.arrays(run, reader), strict=True):
            one.update(data)
    return b"".join(one.digest() for one in prints)


def _form(plan: TensorPlan) -> bytes:
    """Return what tells the types of one tensor apart, and how they are made."""
    return hashlib.sha256(repr(plan.transcoder).encode()).digest()[:8]


class _Memory:
    """What the memo of a store knows of samples and curves."""

    def __init__(self, store: Store, tensors: Sequence[SourceTensor], *, trusts: bool) -> None:
        self._memo = store.memo
        self._trusts = trusts
        files = {array.file.path: array.file for one in tensors for array in one.arrays}
        self._identities = {path: identity_of(file) for path, file in files.items()}
        # A file that was written just now may be written again without a trace.
        self._since = time.time_ns() - GRANULARITY_NS

    def fingerprint(self, sample: _Sample) -> bytes | None:
        """Return what the bytes of a sample were when it was last read, if they still are."""
        key = self._place(sample) if self._trusts else None
        return self._memo.measured(key) if key is not None else None

    def note_fingerprint(self, sample: _Sample, fingerprint: bytes) -> None:
        """Remember what a sample's bytes are."""
        key = self._place(sample)
        if key is not None:
            self._memo.note_measured(key, fingerprint)

    def curve(self, fingerprint: bytes, tensor: SourceTensor) -> Mapping[bytes, float]:
        """Return the errors that were measured of such a sample, by form."""
        data = self._memo.measured(self._content(fingerprint, tensor)) or b""
        if len(data) % _ROW.size:
            return {}
        return {form: error for form, error in _ROW.iter_unpack(data) if 0 <= error < math.inf}

    def note_curve(
        self, fingerprint: bytes, tensor: SourceTensor, errors: Mapping[bytes, float]
    ) -> None:
        """Remember errors by form."""
        data = b"".join(_ROW.pack(form, errors[form]) for form in sorted(errors))
        self._memo.note_measured(self._content(fingerprint, tensor), data)

    def _place(self, sample: _Sample) -> bytes | None:
        """Return a key for where a sample is; None where nothing can be known of that."""
        place = hashlib.sha256(_about(sample.tensor).encode())
        for array in sample.tensor.arrays:
            seen = self._identities[array.file.path]
            if array.file.maker is not None or seen.changed_ns >= self._since:
                return None
            location = os.fsencode(array.file.location)
            place.update(f"\0{len(location)} {seen!r} {array.offset} {array.nbytes}".encode())
            place.update(location)
        return place.digest()

    def _content(self, fingerprint: bytes, tensor: SourceTensor) -> bytes:
        return hashlib.sha256(f"{_about(tensor)} {REVISION}\0".encode() + fingerprint).digest()


def _about(tensor: SourceTensor) -> str:
    return f"{_CURVES} {tensor.shape} {tensor.decoder!r}"
