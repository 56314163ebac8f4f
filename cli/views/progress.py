"""What a command says while it works: a line on a terminal, elsewhere lines, or events."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from cli.views.console import beside, is_quiet, talk, tell_event, warn
from cli.views.interrupted import interrupted_line
from cli.views.progress_line import Line
from cli.views.progress_state import READING, WRITING, State
from cli.views.progress_style import Style
from cli.views.table import fitted
from cli.views.ticking import Teller, ticking
from importer.events import (
    BlobDone,
    Compared,
    Compiling,
    Distributed,
    Evaluated,
    Event,
    Fetched,
    Fetching,
    Listener,
    Measured,
    Measuring,
    ModelBegun,
    Moved,
    Moving,
    NoKernels,
    Planned,
    Published,
    Received,
    Sampling,
    Scanned,
    Verified,
    Wrote,
    silent,
)
from store.text import count, printable, size

_COMMIT_DIGITS: Final = 12
_BLOB: Final = "blob"
_SECONDS: Final = 10.0
"""Away from a terminal, a line comes so often at least."""
_PARTS: Final = 10
"""Or when a tenth more is done; but not in the first seconds, in which most are at the end."""
_FIRST: Final = 3.0
_EVENTS: Final = 0.5
"""Seconds between two events that say how far it is."""


@contextlib.contextmanager
def listening(
    style: Style = Style.AUTO, phases: Sequence[str] = (READING, WRITING)
) -> Iterator[Listener]:
    """Yield a listener for what takes a while; a picture disappears when the block ends.

    When a signal ends the block, what is kept is told, and how to go on.
    """
    state = State(phases)
    try:
        if sys.stderr is None or style is Style.NONE:
            yield silent
        elif style is Style.JSON:
            with ticking(_Events(state)) as listen:
                yield listen
        elif is_quiet():
            yield silent
        elif style is Style.AUTO and _is_capable():
            line = Line(state)
            with beside(line), ticking(_Picture(state, line)) as listen:
                yield listen
        else:
            with ticking(_Lines(state)) as listen:
                yield listen
    except Exception:
        raise
    except BaseException:
        _tell_interrupted(state)
        raise


def _is_capable() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", ""}


class _Picture(Teller):
    """On a terminal: facts as lines that stay, and a line that is drawn again below them."""

    def __init__(self, state: State, line: Line) -> None:
        super().__init__(state)
        self._line = line
        line.draw(now=True)

    def _take(self, event: Event) -> None:
        _tell(event)
        before = self._state.phase
        self._state.take(event)
        self._line.draw(now=self._state.phase != before)

    def _go_on(self) -> None:
        self._line.draw()


class _Lines(Teller):
    """Elsewhere: facts as lines, and now and then how far it is."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._phase, self._at, self._part = state.phase, time.monotonic(), 0

    def _take(self, event: Event) -> None:
        _tell(event)
        self._state.take(event)
        self._go_on()

    def _go_on(self) -> None:
        state, now = self._state, time.monotonic()
        if state.phase != self._phase:
            self._phase, self._at, self._part = state.phase, now, 0
        waited, part = now - self._at, _PARTS * state.nbytes_done // max(state.nbytes, 1)
        is_due = waited >= _SECONDS or (waited >= _FIRST and part > self._part)
        if not state.nbytes and waited >= _SECONDS:
            self._at = now
            talk(f"{state.phase}: {state.seconds:.0f} s")
        elif is_due and state.nbytes and state.share < 1:
            self._at, self._part = now, part
            talk(_how_far(state))


class _Events(Teller):
    """For programs: every fact, and now and then how far it is, as JSON, one a line."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._next, self._is_over = 0.0, False

    def _take(self, event: Event) -> None:
        before = self._state.phase
        self._is_over = isinstance(event, Published)
        self._state.take(event)
        if not isinstance(event, _STEPS):
            told = (pair for pair in event._asdict().items() if pair[0] not in _FOR_PEOPLE)
            facts = {_KEYS.get(key, key): value for key, value in told}
            name = _NAMES[type(event)]
            tell_event(name, {key: _plain(value) for key, value in facts.items()})
        if self._state.phase != before:
            self._next = 0.0
        self._go_on()

    def _go_on(self) -> None:
        now = time.monotonic()
        if now >= self._next and not self._is_over:
            self._next = now + _EVENTS
            tell_event("progress", _document(self._state))


_STEPS: Final = (Received, Wrote, BlobDone, Moved, Measured, Verified, Compared, Evaluated)
"""Events that come by the thousand; how far it is stands for them."""
_NAMES: Final = {
    ModelBegun: "model",
    Fetching: "fetching",
    Fetched: "fetched",
    Moving: "moving",
    Scanned: "scanned",
    Planned: "planned",
    Distributed: "distributed",
    Compiling: "compiling",
    NoKernels: "no_kernels",
    Sampling: "sampling",
    Measuring: "measuring",
    Published: "published",
}
_KEYS: Final = {"nbytes": "bytes"}
_FOR_PEOPLE: Final = frozenset({"is_new", "model", "of"})
"""What the document of a command tells programs, or the command itself."""


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str) else str(value)


def _document(state: State) -> dict[str, object]:
    left = state.seconds_left
    return {
        "model": state.model,
        "phase": state.phase,
        "step": state.step,
        "steps": len(state.phases),
        "items": state.items,
        "items_done": state.items_done,
        "bytes": state.nbytes,
        "bytes_done": state.nbytes_done,
        "bytes_per_second": round(state.rate),
        "seconds_left": None if left is None else round(left),
        "name": state.name,
    }


def _how_far(state: State) -> str:
    items = f", {state.items_done:,} of {count(state.items, state.noun)}" if state.items else ""
    rate, left = int(state.rate), state.seconds_left
    speed = f", {size(rate)}/s" if rate else ""
    rest = "" if left is None else f", {max(round(left), 1)} s left"
    return (
        f"{state.phase}: {100 * state.share:.0f}%{items}, {size(state.nbytes_done)} of "
        f"{size(state.nbytes)}{speed}{rest}"
    )


def _tell_interrupted(state: State) -> None:
    for line in fitted([interrupted_line(state)], sys.stderr):
        talk(line)


def _tell(event: Event) -> None:  # noqa: C901, PLR0912 - one case for each event
    """Say what should be read wherever progress is shown."""
    if isinstance(event, _STEPS):
        return
    match event:
        case ModelBegun(name, number, total):
            talk(f"[{number}/{total}] {name}")
        case Fetching(source, commit, files, nbytes):
            what = f"{count(files, 'file')} ({size(nbytes)})" if files else "nothing"
            talk(f"fetching {what} of {printable(source)} at {commit[:_COMMIT_DIGITS]}")
        case Fetched(files, nbytes, seconds):
            talk(f"fetched {count(files, 'file')} ({size(nbytes)}) in {seconds:.1f} s")
        case Moving(how, place, blobs, nbytes):
            what = f"{count(blobs, 'blob')} ({size(nbytes)})"
            talk(f"{how} {printable(place)}: {what} in all")
        case Scanned(tensors, files, nbytes, model, of):
            what = f"{printable(of)}: " if of else ""
            where = count(files, "file" if model is None else "blob")
            talk(f"scanned {what}{count(tensors, 'tensor')} in {where} ({size(nbytes)})")
        case Planned(blobs, nbytes, present, what, expected):
            if present:
                talk(f"{present:,} of {count(blobs, 'blob')} already in the store")
            in_all = f" ({size(nbytes)})" if not present else ""
            if left := blobs - present:
                # Which of the blobs the store has is known only when each is made and hashed.
                verb = "making" if what == _BLOB else "writing"
                some = f", of which the store may have {expected:,}" if expected else ""
                some = ", which the store may have" if expected == left else some
                talk(f"{verb} {count(left, what)}{in_all}{some}")
        case Distributed(workers, threads):
            talk(f"using {count(workers, 'worker')} with {count(threads, 'thread')}")
        case Compiling():
            talk("compiling kernels, once")
        case NoKernels(reason):
            warn(f"kernels cannot be used ({reason}): quantizing in numpy, which is slower")
        case Sampling(tensors, nbytes):
            talk(f"sampling {count(tensors, 'tensor')} (at most {size(nbytes)})")
        case Measuring(tensors, nbytes):
            talk(f"measuring {count(tensors, 'tensor')} ({size(nbytes)})")
        case Published(manifest, is_new) if is_new:
            talk(f"published manifest {manifest.short}")
        case _:
            pass
