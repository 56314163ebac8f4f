"""Put jobs together into tasks, so that handing one out costs little beside doing it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_Job = TypeVar("_Job")

SMALLEST: Final = 64 << 20
"""Bytes of the source that a task has at least, where there are so many: handing out a task
takes milliseconds, which making 64 MB takes hundreds of."""
LARGEST: Final = 256 << 20
"""Bytes that are put together at most: a worker that is killed loses what it has of them."""
MOST: Final = 4096
"""Jobs of a task: their plans are sent along, 1 to 2 KiB each."""
_SHARES: Final = 8
"""Tasks of a thread, where they are between the two. With 64 MB for 4 GB on two threads, the
client and the scheduler kept them waiting: 1.43 times as long as one machine; 1.1 with 256."""


def batches(
    jobs: Iterable[tuple[int, _Job]], nbytes: Callable[[_Job], int], threads: int
) -> Iterator[tuple[tuple[int, _Job], ...]]:
    """Put jobs together into tasks of similar size; the largest go first, alone.

    Args:
        jobs: each with its number.
        nbytes: that a job reads.
        threads: of the cluster.
    """
    waiting = sorted(jobs, key=lambda one: (-nbytes(one[1]), one[0]))
    share = sum(nbytes(job) for _, job in waiting) // (threads * _SHARES)
    enough = min(max(share, SMALLEST), LARGEST)
    batch: list[tuple[int, _Job]] = []
    total = 0
    for number, job in waiting:
        batch.append((number, job))
        total += nbytes(job)
        if total >= enough or len(batch) == MOST:
            yield tuple(batch)
            batch, total = [], 0
    if batch:
        yield tuple(batch)
