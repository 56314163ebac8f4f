"""Work shared by threads, which give up together."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_AHEAD: Final = 1024
"""Items that are begun before the first is done: 100 000 futures at once take 180 MB."""


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
        """Raise if the work is to end; may be called with a number of bytes.

        Raises:
            StoppedError: `set` was called.
        """
        if self._event.is_set():
            raise StoppedError


def each(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int, stop: Stop
) -> Iterator[_Result]:
    """Yield the results of `work` in the order of the items.

    When an item fails, or a signal ends the wait, `stop` is set, so that no thread hashes a
    blob of 50 GB to its end first.

    Args:
        work: is called with each item, in any thread.
        items: taken one by one, at most 1024 ahead of the results.
        threads: that work.
        stop: for `work` to look at.

    Raises:
        Exception: what `work` raised for the first item that failed.
    """
    # Here, because it imports `logging`: 4 ms that a command without work should not pay.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    waiting: deque[Future[_Result]] = deque()
    rest = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        try:
            waiting.extend(pool.submit(work, item) for item in itertools.islice(rest, _AHEAD))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(work, item) for item in itertools.islice(rest, 1))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
