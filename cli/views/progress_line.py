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

from cli.views.table import cut_to, width_of
from store.text import printable, size

if TYPE_CHECKING:
    from cli.views.progress_state import State

_REDRAWN: Final = 0.1
"""Seconds between two pictures: quicker than eyes need costs threads their time."""
_MINUTE: Final = 60
_HOUR: Final = 3600
_WITH_RATE: Final = 70
"""Columns from which there is room for the rate and what is counted."""
_BAR, _SHORT_BAR, _SHORTEST_BAR = 20, 8, 6
_RATE: Final = 8
"""Columns of a rate."""
_FREE: Final = 3
"""Columns behind it: a terminal that echoes `^C` there begins no new line."""
_NAME, _SHORT_NAME = 28, 16
"""Columns of most names, and those below which their ends say nothing beside a bar."""
_SHORTEST_NAME: Final = 8
"""Columns below which nothing of a name is shown that is cut."""


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
    """Return the picture, at most so wide: fields of fixed widths, the rest bar and name."""
    steps = f"{state.step}/{len(state.phases)} " if len(state.phases) > 1 else ""
    model = f"model {state.model}  " if state.model else ""
    parts = [f"{model}{steps}{state.phase}", *_fields(state, width)]
    while len(parts) > 1 and width_of("  ".join(parts)) > width:
        parts.pop()  # half a number would be another one
    columns = _columns_of_bar(width - width_of("  ".join(parts)) - 2)
    if state.nbytes and columns:
        parts.insert(1, _bar(state.share, columns, has_blocks=has_blocks))
    text = "  ".join(parts).rstrip()  # what is not known yet is blank, and a name says more
    rest = width - width_of(text) - 2
    name = printable(state.name, 1000)  # first: an escape must not be cut in half
    if name and rest >= min(width_of(name), _SHORTEST_NAME):
        text = f"{text}  {cut_to(name, rest)}"
    return text[:width]


def _fields(state: State, width: int) -> Iterator[str]:
    """Yield the numbers of a phase."""
    if not state.nbytes:
        if (seconds := int(state.seconds)) > 0:
            yield f"{seconds} s"
        return
    is_wide = width >= _WITH_RATE
    if state.items:
        items = f"{state.items:,}"
        noun = f" {state.noun}s" if is_wide else ""
        yield f"{state.items_done:>{len(items)},}/{items}{noun}"
    yield f"{size(state.nbytes_done):>6}/{size(state.nbytes)}"
    if is_wide:
        rate = int(state.rate)
        yield f"{size(rate):>6}/s" if rate else " " * _RATE
    yield f"{_left(state.seconds_left):>11}"


def _columns_of_bar(rest: int) -> int:
    """Return how wide the bar is where so many columns are left for it and a name."""
    if rest < _SHORT_BAR + 2 + _SHORT_NAME:
        return min(rest, _BAR) if rest >= _SHORTEST_BAR else 0
    return min(max(rest - 2 - _NAME, _SHORT_BAR), _BAR)


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    whole = max(round(seconds), 1)
    if whole < _MINUTE:
        return f"{whole} s left"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02} min left"
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02} h left"


def _bar(share: float, columns: int, *, has_blocks: bool) -> str:
    full, empty = ("█", "░") if has_blocks else ("#", ".")
    filled = int(share * columns)
    return full * filled + empty * (columns - filled)


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
