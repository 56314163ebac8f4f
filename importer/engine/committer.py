"""Commit what was made while other blobs are made: syncing waits for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from importer.engine.make import Made, MakeJob
from store.parallel import Stop, StoppedError

_THREADS: Final = 8
"""At least, that wait for the disk. Several at a time share one commit of the file system's
journal."""
_LOOK: Final = 0.1
"""Seconds after which a thread that waits looks whether everything stops."""


class Committer:
    """Commits blobs in threads of its own. Use as a context manager.

    Unfinished blobs are open files, and content that only the page cache has: `admit` holds
    back those who make more of them than are committed.
    """

    def __init__(
        self, commit: Callable[[MakeJob, Made], None], makers: int, stop: Stop
    ) -> None:
        """Prepare to commit what `makers` threads make.

        Args:
            commit: makes one blob durable and puts it into its place.
            stop: set when a commit fails.
        """
        threads = max(makers, _THREADS)
        self._commit = commit
        self._stop = stop
        self._pool = ThreadPoolExecutor(threads)
        self._room = threading.Semaphore(makers + threads)
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._pool.shutdown()
        # That the makers were stopped follows from the first failure here.
        if self._errors and (error is None or isinstance(error, StoppedError)):
            raise self._errors[0]

    def admit(self) -> None:
        """Wait until one more blob may be begun; each is submitted, or everything stops.

        Raises:
            StoppedError: everything stops.
        """
        # What is made and no longer taken after a failure leaves no room, and nobody tells.
        while not self._room.acquire(timeout=_LOOK):
            self._stop.check()

    def submit(self, job: MakeJob, made: Made) -> None:
        """Commit a blob as soon as there is a thread for it."""
        self._pool.submit(self._run, job, made)

    def _run(self, job: MakeJob, made: Made) -> None:
        try:
            self._stop.check()
            self._commit(job, made)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._errors.append(error)
            self._stop.set()
        finally:
            self._room.release()
