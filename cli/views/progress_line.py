"""The picture of the progress on a terminal: one line that never wraps, and goes away."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cli.views.table import width_of
from store.text import printable, size

if TYPE_CHECKING:
    from cli.views.progress_state import State

_REDRAWN: Final = 0.1
"""Seconds between two pictures: quicker than eyes need costs threads their time."""
_MINUTE: Final = 60
_HOUR: Final = 3600
_WITH_RATE: Final = 70
_WITH_BAR: Final = 100
"""Columns from which there is room for the rate and what is counted, and for a bar."""
_BAR: Final = 20
_RATE: Final = 8
"""Columns of a rate."""
_FREE: Final = 3
"""Columns behind it: a terminal that echoes `^C` there begins no new line."""
_NAME: Final = 4
"""Columns below which a name would be nothing but dots."""


class Line:
    """The last line of a terminal, drawn again and again."""

    def __init__(self, state: State) -> None:
        """Show nothing yet."""
        self._state = state
        self._lock = threading.RLock()
        self._drawn = 0
        self._next = 0.0
        self._has_blocks = _can_show("█")

    def draw(self, *, now: bool = False) -> None:
        """Draw the picture, if it is time to."""
        moment = time.monotonic()
        with self._lock:
            if not now and moment < self._next:
                return
            self._next = moment + _REDRAWN
            columns = _columns()
            text = line_of(self._state, columns - _FREE, has_blocks=self._has_blocks)
            _write(self._cleared(columns) + text)
            self._drawn = width_of(text)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the picture away, and draw none while the block goes on."""
        with self._lock:
            if self._drawn:
                _write(self._cleared(_columns()))
                self._drawn, self._next = 0, 0.0
            yield

    def _cleared(self, columns: int) -> str:
        # A terminal that was made narrower has broken the line into several.
        above = max(self._drawn - 1, 0) // max(columns, 1)
        up = f"\x1b[{above}A" if above else ""
        return f"\r{up}\x1b[J" if self._drawn else "\r"


def line_of(state: State, width: int, *, has_blocks: bool = True) -> str:
    """Return the picture, at most so wide: fields of fixed widths, the name last and cut."""
    longest = max(map(len, state.phases), default=0)
    steps = f"{state.step}/{len(state.phases)} " if len(state.phases) > 1 else ""
    model = f"model {state.model}  " if state.model else ""
    parts = [f"{model}{steps}{state.phase.ljust(longest)}"]
    if state.nbytes:
        if width >= _WITH_BAR:
            parts.append(_bar(state.share, has_blocks=has_blocks))
        if state.items:
            items = f"{state.items:,}"
            noun = f" {state.noun}s" if width >= _WITH_RATE else ""
            parts.append(f"{state.items_done:>{len(items)},}/{items}{noun}")
        parts.append(f"{size(state.nbytes_done):>6}/{size(state.nbytes)}")
        if width >= _WITH_RATE:
            rate = int(state.rate)  # nothing moves while kernels are compiled
            parts.append(f"{size(rate):>6}/s" if rate else " " * _RATE)
        parts.append(f"{_left(state.seconds_left):>11}")
    elif (seconds := int(state.seconds)) > 0:
        parts.append(f"{seconds} s")
    while len(parts) > 1 and width_of("  ".join(parts)) > width:
        parts.pop()  # half a number would be another one
    text = "  ".join(parts)
    rest = width - width_of(text) - 2
    if state.name and rest >= _NAME:
        text = f"{text}  {_shortened(state.name, rest)}"
    return text[:width]


def _shortened(name: str, width: int) -> str:
    # Printable first: an escape must not be cut in half.
    shown = printable(name, 1000)
    if width_of(shown) <= width:
        return shown
    while width_of(shown) >= width:
        shown = shown[:-1]
    return f"{shown}…"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    whole = max(round(seconds), 1)
    if whole < _MINUTE:
        return f"{whole} s left"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02} min left"
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02} h left"


def _bar(share: float, *, has_blocks: bool) -> str:
    full, empty = ("█", "░") if has_blocks else ("#", ".")
    filled = int(share * _BAR)
    return full * filled + empty * (_BAR - filled)


def _columns() -> int:
    # Asked at each picture, and of stderr: stdout may be a file.
    with contextlib.suppress(OSError, ValueError):
        if columns := os.get_terminal_size(sys.stderr.fileno()).columns:
            return columns
    return shutil.get_terminal_size((80, 24)).columns


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()
