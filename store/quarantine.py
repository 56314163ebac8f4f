"""Take bad files out of `blobs/`, so that no file is named by the digest of other bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from store.digest import Digest
from store.errors import IngotError, is_exhausted
from store.parallel import Stop
from store.status import Kind, Status
from store.store import Store

WAIT: Final = 10.0
"""Seconds to wait for writers, who hold the lock for moments."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A blob that is not as it should be.

    Attributes:
        seen: its file when it was looked at, or None where there is none.
        is_bad: whether the file is known not to hold the blob; one that cannot be read may.
    """

    digest: Digest
    seen: Status | None
    is_bad: bool


def examine(store: Store, digest: Digest, stop: Stop | None = None) -> Suspect | None:
    """Look at a blob and hash it; return None where it is good.

    Raises:
        StoppedError: `stop` was set.
    """
    check = (stop or Stop()).check
    seen = store.blobs.status(digest)
    if seen is None:
        return Suspect(digest, None, is_bad=False)
    if seen.kind is not Kind.FILE:
        return Suspect(digest, seen, is_bad=True)
    try:
        with store.blobs.open(digest) as file:
            seen = store.fs.status_of(file)
            is_good = store.blobs.digest_of(file, check) == digest
    except IngotError:  # gone, or no file any more, since we looked
        return Suspect(digest, None, is_bad=False)
    except OSError as error:
        if is_exhausted(error):
            raise
        return Suspect(digest, seen, is_bad=False)
    if is_good:
        return None
    store.memo.forget(digest)
    return Suspect(digest, seen, is_bad=True)


def quarantine(
    store: Store, suspects: Iterable[Suspect], wait: float = WAIT
) -> tuple[Digest, ...]:
    """Move bad files into quarantine, durably; return the digests of those that were moved.

    A file that is no longer the one that was looked at stays: somebody may have repaired it.
    Hence the exclusive lock: between a look and a rename no writer may put a good copy there.

    Raises:
        UnsupportedError: locks of this file system exclude nobody; nothing was moved.
        BusyError: the lock was not free in time.
    """
    bad = [suspect for suspect in suspects if suspect.is_bad]
    moved: list[Digest] = []
    if not bad:
        return ()
    store.prepare()
    with store.lock.exclusive(wait):
        store.lock.check_effective("quarantine")
        for suspect in bad:
            if store.blobs.status(suspect.digest) == suspect.seen:
                store.blobs.set_aside(suspect.digest)
                moved.append(suspect.digest)
    for directory in (store.layout.quarantine, store.layout.blobs):
        store.fs.sync_directory(directory)
    return tuple(moved)
