"""The lock of the store: writers share it for moments, gc excludes them for moments."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from store.errors import BusyError, UnsupportedError
from store.fs import File, FileSystem
from store.paths import Layout

_POLL: Final = 0.002
_SHARED_WAIT: Final = 120.0
"""Seconds that a writer waits: gc holds the lock for moments, so this means it hangs."""


class StoreLock:
    """A turnstile of two flock files.

    Shared: pass `gate`, take `store`, leave `gate`. Exclusive: hold `gate`, then take `store`.
    Whoever waits for exclusive use holds the gate, so newcomers queue behind; with one file
    gc waited for as long as writers kept coming (measured: 5.5 s against 0.06 s).
    """

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self.fs: Final = fs
        self.layout: Final = layout

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock with other writers; never hash, copy or sync data meanwhile.

        Raises:
            BusyError: gc did not leave in time, so it hangs.
        """
        held = self._take_shared(time.monotonic() + _SHARED_WAIT)
        try:
            yield
        finally:
            self.fs.close(held)

    @contextlib.contextmanager
    def exclusive(self, wait: float) -> Iterator[None]:
        """Hold the lock alone.

        Args:
            wait: seconds to wait for the others.

        Raises:
            BusyError: they did not leave in time.
        """
        deadline = time.monotonic() + wait
        gate = self._take("gate", exclusive=True, deadline=deadline)
        try:
            held = self._take("store", exclusive=True, deadline=deadline)
            try:
                yield
            finally:
                self.fs.close(held)
        finally:
            self.fs.close(gate)

    def is_effective(self) -> bool:
        """Return whether locks exclude anybody here; call this while holding the lock alone.

        On some network file systems flock succeeds for everyone (huggingface_hub #4228).
        """
        second = self.fs.try_lock(self.layout.locks / "store", exclusive=False)
        if second is None:
            return True
        self.fs.close(second)
        return False

    def check_effective(self, who: str) -> None:
        """Refuse to go on where locks exclude nobody; call this while holding the lock alone.

        Args:
            who: what cannot work then, such as `gc`.

        Raises:
            UnsupportedError: they exclude nobody.
        """
        if not self.is_effective():
            raise UnsupportedError(
                f"locks do nothing on the file system of `{self.layout.root}`, so {who} "
                "cannot know that no import is running",
                code="E_LOCKS",
                hint="Move the store to a local disk",
            )

    def _take_shared(self, deadline: float) -> File:
        while True:
            gate = self._take("gate", exclusive=False, deadline=deadline)
            try:
                held = self.fs.try_lock(self.layout.locks / "store", exclusive=False)
            finally:
                self.fs.close(gate)
            if held is not None:
                return held
            self._wait(deadline)

    def _take(self, name: str, *, exclusive: bool, deadline: float) -> File:
        path = self.layout.locks / name
        while (held := self.fs.try_lock(path, exclusive=exclusive)) is None:
            self._wait(deadline)
        return held

    def _wait(self, deadline: float) -> None:
        # Polling, because a blocking flock cannot time out.
        if time.monotonic() >= deadline:
            raise BusyError(
                f"the store `{self.layout.root}` is locked by another process",
                code="E_BUSY",
            )
        time.sleep(_POLL)
