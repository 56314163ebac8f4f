"""Counting what goes to or comes from a registry, a MiB at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.events import Event, Listener, Moved, Wrote
from store.arrival import reused
from store.blobs import BlobRef

if TYPE_CHECKING:
    from store.store import Store
    from store.writer import Writer

_REPORT_BYTES: Final = 1 << 20

Tell = Callable[[int], None]


class Amount(NamedTuple):
    """How many blobs, and their bytes."""

    blobs: int = 0
    nbytes: int = 0


class Tally:
    """What has moved and what was there; threads share one."""

    def __init__(self, listen: Listener) -> None:
        self.moved = self.present = self.mounted = Amount()
        self._listener = listen
        self._mutex = threading.Lock()

    def listen(self, event: Event) -> None:
        """Pass an event on; a listener hears of one at a time."""
        with self._mutex:
            self._listener(event)

    @contextmanager
    def counting(self, ref: BlobRef) -> Iterator[Tell]:
        """Yield what counts the bytes of a blob that moves; negative where they move again."""
        pending = 0

        def report() -> None:
            nonlocal pending
            if pending:
                self.listen(Wrote(ref.digest.short, pending))
            pending = 0

        def tell(nbytes: int) -> None:
            nonlocal pending
            pending += nbytes
            if abs(pending) >= _REPORT_BYTES:
                report()

        try:
            yield tell
        finally:
            report()

    def kept(self, ref: BlobRef, nbytes: int) -> None:
        """Count bytes of a blob that an earlier run has moved."""
        self.listen(Wrote(ref.digest.short, nbytes, is_new=False))

    def has_moved(self, ref: BlobRef, kept: int = 0) -> None:
        """Count a blob that has moved, but for the bytes that an earlier run had moved."""
        self._done(ref, is_new=True)
        with self._mutex:
            self.moved = _plus(self.moved, ref.size - kept)

    def was_there(self, ref: BlobRef) -> None:
        """Count a blob that was there."""
        self.kept(ref, ref.size)
        self._done(ref, is_new=False)
        with self._mutex:
            self.present = _plus(self.present, ref.size)

    def is_mounted(self, ref: BlobRef) -> None:
        """Count a blob that the registry took from another repository."""
        self.kept(ref, ref.size)
        self._done(ref, is_new=False)
        with self._mutex:
            self.mounted = _plus(self.mounted, ref.size)

    def _done(self, ref: BlobRef, *, is_new: bool) -> None:
        self.listen(Moved(ref.digest.short, is_new))


def lacking(
    writer: Writer, store: Store, refs: Iterable[BlobRef], tally: Tally
) -> list[BlobRef]:
    """Pin blobs, count those that a store has, and return the others."""
    missing = []
    for ref, is_there in reused(writer, store, refs):
        if is_there:
            tally.was_there(ref)
        else:
            missing.append(ref)
    return missing


def _plus(amount: Amount, nbytes: int) -> Amount:
    return Amount(amount.blobs + 1, amount.nbytes + nbytes)
