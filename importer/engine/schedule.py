"""Which blob is written next, and when kernels have to be there."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto

from importer.codecs.base import Codec
from importer.codecs.plain import Plain
from importer.engine.reuse import Job
from importer.planning.plan import BlobPlan


def codecs_of(job: Job) -> list[Codec]:
    """The codecs that make something else of a job's source."""
    tensors = job.tensors if isinstance(job, BlobPlan) else ()
    return [tensor.codec for tensor in tensors if not isinstance(tensor.codec, Plain)]


class _Kernels(Enum):
    """How far kernels are, which take 0.3 s to load, and seconds to compile once."""

    UNUSED = auto()
    WANTED = auto()
    READY = auto()


class JobQueue:
    """The jobs that wait, for several workers; the largest is the next.

    Kernels are made ready by who waits for the workers, and not before one of them needs
    them. Meanwhile workers do what needs none: all would wait for the compiler's one lock.
    """

    def __init__(self, jobs: Sequence[Job], waiting: Iterable[int], workers: int) -> None:
        """Put the jobs that wait, told by their numbers, in order for some workers."""
        self._jobs = jobs
        self._plain: deque[int] = deque()
        self._coded: deque[int] = deque()
        for number in sorted(waiting, key=lambda number: (-jobs[number].nbytes, number)):
            (self._coded if codecs_of(jobs[number]) else self._plain).append(number)
        self._workers = workers
        self._is_over = False
        self._kernels = _Kernels.UNUSED
        self._changed = threading.Condition()

    def next(self) -> int | None:
        """The number of the next job, when there is one; None at the end."""
        with self._changed:
            while not self._is_over:
                is_loading = self._kernels is _Kernels.WANTED
                queues = [self._plain] if is_loading else [self._plain, self._coded]
                waiting = [queue for queue in queues if queue]
                if waiting:
                    return max(waiting, key=lambda queue: self._jobs[queue[0]].nbytes).popleft()
                if not self._coded:
                    return None
                self._changed.wait()
        return None

    def is_ready(self, job: Job) -> bool:
        """Whether a job has what it needs to be encoded."""
        return self._kernels is _Kernels.READY or not codecs_of(job)

    def put_back(self, number: int) -> None:
        """Keep a job until kernels are ready, which has to be done now."""
        with self._changed:
            self._coded.appendleft(number)
            if self._kernels is _Kernels.UNUSED:
                self._kernels = _Kernels.WANTED
            self._changed.notify_all()

    def leave(self) -> None:
        """Say that a worker has ended."""
        with self._changed:
            self._workers -= 1
            self._changed.notify_all()

    def end(self) -> None:
        """Give no more jobs."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait_for_need(self) -> bool:
        """Wait until kernels are needed, and tell so, or until no worker is left."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._kernels is _Kernels.WANTED or not self._workers
            )
            return self._kernels is _Kernels.WANTED

    def set_ready(self) -> None:
        """Say that kernels are ready, or as ready as they can be."""
        with self._changed:
            self._kernels = _Kernels.READY
            self._changed.notify_all()
