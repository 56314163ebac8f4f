"""What tells of progress is told of time, too: a phase that reports nothing is not silent."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

from cli.views.progress_state import State
from importer.events import Event, Listener

_TICK: Final = 1.0
"""Seconds after which it is looked whether there is something to tell, without any event."""


class Teller(ABC):
    """Tells of events as they come, and of time that passes without any."""

    def __init__(self, state: State) -> None:
        self._state, self._lock = state, threading.Lock()

    def __call__(self, event: Event) -> None:
        """Take what was reported."""
        with self._lock:
            self._take(event)

    def tick(self) -> None:
        """Say that something is going on, if it is time to."""
        with self._lock:
            self._go_on()

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Tell what was reported, while nothing else does."""

    @abstractmethod
    def _go_on(self) -> None:
        """Tell how far it is, if it is time to."""


@contextlib.contextmanager
def ticking(teller: Teller) -> Iterator[Listener]:
    """Yield what tells of events, and of time that passes without any."""
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(_TICK):
            teller.tick()

    thread = threading.Thread(target=tick, daemon=True, name="progress")
    thread.start()
    try:
        yield teller
    finally:
        stop.set()
        thread.join()
