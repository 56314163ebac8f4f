"""Who runs jobs: the threads of this process, or whatever has the same contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto, unique
from queue import SimpleQueue
from typing import Protocol, TypeVar

from importer.engine.workers import WorkerPool
from store.parallel import Stop

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


@unique
class _End(Enum):
    """What a thread says last."""

    END = auto()


class Executor(Protocol):
    """Runs jobs that do not depend on each other.

    Jobs and results are values that can be pickled, and `work` is pure: the same job gives the
    same result wherever it runs. So threads, processes and a cluster may take turns.

    Example:
        >>> for job, made in executor.run(jobs, make):
        ...     sink.commit(job.path, made)
    """

    def run(
        self, jobs: Iterable[_Job], work: Callable[[_Job], _Result]
    ) -> Iterator[tuple[_Job, _Result]]:
        """Yield each job with its result, in the order in which they are done.

        Args:
            jobs: taken one by one, as late as possible: an iterator may hold them back.
            work: called in any thread, or anywhere else.

        Raises:
            Exception: what `work` or the iterator raised first; the other jobs are given up.
        """
        ...


class Threads:
    """Runs jobs in the threads of a pool that works on chunks, too."""

    def __init__(self, count: int, workers: WorkerPool, stop: Stop) -> None:
        """Run `count` jobs at a time.

        Args:
            workers: told which threads are at work, so that it helps those that are left.
            stop: set when a job fails, and when nobody waits for the results any more.
        """
        self._count = count
        self._workers = workers
        self._stop = stop

    def run(
        self, jobs: Iterable[_Job], work: Callable[[_Job], _Result]
    ) -> Iterator[tuple[_Job, _Result]]:
        """Yield each job with its result; see `Executor`."""
        waiting = iter(jobs)
        turn = threading.Lock()
        done: SimpleQueue[tuple[_Job, _Result] | BaseException | _End] = SimpleQueue()

        def loop() -> None:
            # One task for each thread: a future for each of 100 000 blobs takes 150 MB.
            try:
                with self._workers.at_work():
                    while True:
                        with turn:
                            self._stop.check()
                            job = next(waiting, _End.END)
                        if job is _End.END:
                            break
                        done.put((job, work(job)))
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                done.put(error)  # before the others are stopped, so that it is the first
                self._stop.set()
            finally:
                done.put(_End.END)

        with ThreadPoolExecutor(self._count) as pool:
            try:
                for _ in range(self._count):
                    pool.submit(loop)
                running = self._count
                while running:
                    result = done.get()
                    if result is _End.END:
                        running -= 1
                    elif isinstance(result, BaseException):
                        raise result  # noqa: TRY301 - what another thread met
                    else:
                        yield result
            except BaseException:
                # Also when a signal ends the wait: threads look at this between chunks.
                self._stop.set()
                raise
