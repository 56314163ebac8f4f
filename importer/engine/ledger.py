"""What became of each job of a plan: its owner reuses and commits, nobody else does."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.engine.reuse import Reuse
from importer.engine.sink import Sink
from importer.events import BlobDone, Event, Listener, Wrote
from importer.planning.plan import Job
from store import BlobRef, CommitOutcome
from store.writer import Writer

if TYPE_CHECKING:  # an import that finds everything in the store makes nothing
    from importer.engine.make import Made, MakeJob, Stored
    from importer.engine.reuse import Fingerprint

_AT_ONCE: Final = 256
"""Blobs that are reused under one lock, which gc waits for: that takes 5 ms."""


class Written(NamedTuple):
    """A blob of the plan that is in the store."""

    ref: BlobRef
    installed: CommitOutcome


def put_noted(writer: Writer, notes: list[Written], data: bytes) -> BlobRef:
    """Put a small blob into the store, add what became of it to `notes`, and return it."""
    notes.append(Written(*writer.put(data)))
    return notes[-1].ref


class Ledger:
    """What became of each job; it alone commits to the sink and tells the listener.

    Attributes:
        jobs: blobs and files of a plan.
        done: for each job what became of it, or None as long as it is not done.
        sink: where blobs are made.
        reuse: what the store is known to have.
    """

    def __init__(
        self, jobs: Sequence[Job], writer: Writer, reuse: Reuse, listen: Listener
    ) -> None:
        self.jobs: Final = jobs
        self.done: Final[list[Written | None]] = [None] * len(jobs)
        self.sink: Final[Sink] = writer
        self.reuse: Final = reuse
        self._writer = writer
        self._listen = listen
        self._telling = threading.Lock()

    @property
    def left(self) -> list[int]:
        """The jobs that are not done, the largest first."""
        numbers = (number for number, done in enumerate(self.done) if done is None)
        return sorted(numbers, key=lambda number: (-self.jobs[number].nbytes, number))

    @property
    def expected(self) -> list[int]:
        """The jobs that are not done whose blobs may have been made before."""
        left = self.left
        worth = self.reuse.expected([self.jobs[number] for number in left])
        return list(itertools.compress(left, worth))

    def take_known(self, known: Sequence[BlobRef | None]) -> None:
        """Take what the store is known to have.

        Args:
            known: for each job the blob, or None.
        """
        found = [(number, ref) for number, ref in enumerate(known) if ref is not None]
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            taken = self._writer.reuse([ref for _, ref in some])
            for (number, ref), is_there in zip(some, taken, strict=True):
                if is_there:
                    self._reused(number, ref)

    def recall(self, number: int, fingerprints: Sequence[Fingerprint]) -> None:
        """Take the blob that sources with these fingerprints gave before, if it is there."""
        job = self.jobs[number]
        ref = self.reuse.look_up(job, fingerprints)
        if ref is not None and self._writer.reuse([ref])[0]:
            self._reused(number, ref)
            self.reuse.note(job, fingerprints, ref)

    def commit(self, job: MakeJob, made: Made) -> None:
        """Give a blob that was made its name in the store."""
        assert made.ref.size == job.plan.nbytes, f"{made.ref.size} of {job.plan.nbytes} bytes"
        try:
            outcome = self.sink.commit(job.path, made.ref)
        finally:
            self.sink.discard(job.path)  # unless it was committed
        self.reuse.note(job.plan, made.fingerprints, made.ref)
        self.done[job.number] = Written(made.ref, outcome)
        self.tell(BlobDone(job.plan.name, made.ref.size, outcome))

    def adopt(self, found: Sequence[Stored]) -> None:
        """Take over blobs that another writer has put into the store and still holds.

        Where one is gone all the same, its job stays undone.
        """
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            for one in some:
                expected = self.jobs[one.number].nbytes
                assert one.made.ref.size == expected, f"{one.made.ref.size} of {expected} bytes"
                if one.status is not None:
                    self.reuse.saw(one.made.ref, one.status)
            self._writer.reuse([one.made.ref for one in some])  # pins: gc takes them no more
            for one in some:
                if self.reuse.is_there(one.made.ref):
                    self._adopted(one)

    def _adopted(self, one: Stored) -> None:
        job, ref = self.jobs[one.number], one.made.ref
        self.reuse.note(job, one.made.fingerprints, ref)
        self.done[one.number] = Written(ref, one.outcome)
        self.tell(BlobDone(job.name, ref.size, one.outcome))

    def wrote(self, name: str, nbytes: int) -> None:
        """Tell that so many bytes of a blob were written."""
        self.tell(Wrote(name, nbytes))

    def tell(self, event: Event) -> None:
        """Tell the listener, from any thread, one event at a time."""
        with self._telling:
            self._listen(event)

    def _reused(self, number: int, ref: BlobRef) -> None:
        name = self.jobs[number].name
        self.done[number] = Written(ref, CommitOutcome.REUSED)
        self.tell(Wrote(name, ref.size, is_new=False))
        self.tell(BlobDone(name, ref.size, CommitOutcome.REUSED))
