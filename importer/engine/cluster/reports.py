"""How far jobs are: workers tell it now and then, the client counts every byte once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from importer.events import Compiling, Listener, NoKernels, Wrote

_INTERVAL: Final = 0.25
"""Seconds between two reports of a thread, at least."""
_REPORTS: Final = 100
"""Reports a second that the scheduler passes on, at most."""


def interval_of(threads: int) -> float:
    """Return the seconds between two reports of each of so many threads."""
    return max(_INTERVAL, threads / _REPORTS)


class Teller:
    """Tells now and then how far the jobs of one task are, on a worker."""

    def __init__(
        self, tell: Callable[[dict[str, object]], None], session: str, interval: float
    ) -> None:
        """Begin to tell.

        Args:
            tell: has the client hear a message.
            session: that the task is of.
            interval: seconds between two messages.
        """
        self._tell, self._session, self._interval = tell, session, interval
        self._fresh: dict[int, int] = {}
        self._next = time.monotonic() + interval

    def of(self, number: int) -> Callable[[int], None]:
        """Return what is to be called with the bytes of one job that were written."""
        total = 0

        def wrote(nbytes: int) -> None:
            nonlocal total
            total += nbytes
            self._fresh[number] = total
            if (now := time.monotonic()) >= self._next:
                # All so far, so that nothing counts twice when a job is done a second time.
                so_far = [list(item) for item in self._fresh.items()]
                self._tell({"session": self._session, "so_far": so_far})
                self._next = now + self._interval
                self._fresh.clear()

        return wrote


class Reports:
    """What workers told so far, on the client."""

    def __init__(self, session: str, listen: Listener, name: Callable[[int], str]) -> None:
        """Listen to the tasks of one session.

        Args:
            listen: told of every byte once, from any thread.
            name: of a job, by its number.
        """
        self._session, self._listen, self._name = session, listen, name
        self._told: Counter[int] = Counter()
        self._telling = threading.Lock()
        self._is_compiling = False

    def hear(self, message: dict[str, Any]) -> None:
        """Take what a worker tells, in a thread of Dask's client."""
        if message.get("session") != self._session:
            return  # another command on the same cluster
        for number, so_far in message.get("so_far", ()):
            self.wrote(number, so_far)
        if message.get("compiling") and not self._is_compiling:
            self._is_compiling = True
            self._listen(Compiling())
        if problem := message.get("problem"):
            self._listen(NoKernels(problem))

    def wrote(self, number: int, so_far: int) -> None:
        """Tell how many bytes of a job are written; each counts once, whoever wrote it."""
        with self._telling:
            more = so_far - self._told[number]
            if more > 0:
                self._told[number] = so_far
                self._listen(Wrote(self._name(number), more))
