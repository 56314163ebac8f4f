"""Work that threads share, and give up together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class StoppedError(Exception):
    """Another thread failed or a signal came, so this one gives up."""


class Stop:
    """Tells threads to give up: `check` is called between the chunks of a large blob."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Have every later `check` raise."""
        self._event.set()

    def check(self, _: int = 0) -> None:
        """Go on, or not.

        Raises:
            StoppedError: not.
        """
        if self._event.is_set():
            raise StoppedError


def each(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int, stop: Stop
) -> Iterator[_Result]:
    """Give the results of `work` in the order of the items.

    When one fails, or a signal ends the wait, nobody hashes a blob of 50 GB to its end first.
    """
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            stop.set()
            raise
