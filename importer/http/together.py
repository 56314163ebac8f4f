"""Several transfers at once, which end together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final, TypeVar

from store.parallel import StoppedError

CONNECTIONS: Final = 8
"""As many as huggingface_hub opens."""

_Item = TypeVar("_Item")


def together(
    work: Callable[[_Item], None], items: Sequence[_Item], stop: threading.Event
) -> None:
    """Do something with each item, some at a time; the first failure ends all.

    Args:
        work: is called with each item, in any thread.
        items: of the work.
        stop: for `work` to look at; it is set when something fails, or a signal comes.

    Raises:
        Exception: the first that `work` raised.
    """
    # Not `store.parallel.each`, which waits for threads: a signal must not wait for a
    # connection that says nothing. Parts are kept anyway.
    pool = ThreadPoolExecutor(CONNECTIONS)
    futures = [pool.submit(work, item) for item in items]
    try:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    errors = [error for future in done if (error := future.exception()) is not None]
    if errors:
        stop.set()
    pool.shutdown(cancel_futures=True)
    if errors:
        raise next((e for e in errors if not isinstance(e, StoppedError)), errors[0])
