"""How far a command is, from what it reports: phase, items, bytes, rate and the time left."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from importer.events import (
    BlobDone,
    Compared,
    Compiling,
    Evaluated,
    Event,
    Fetched,
    Fetching,
    Measured,
    Measuring,
    ModelBegun,
    Moved,
    Moving,
    Planned,
    Published,
    Received,
    Sampling,
    Verified,
    Wrote,
)

_WINDOW: Final = 5.0
"""Seconds that a rate is the mean of."""
_BRIEF: Final = 0.25
"""Seconds before which there is no rate."""
_SETTLED: Final = 2.0
"""Seconds after which a rate means something."""
_STALLED: Final = 0.1
"""The share of a phase's mean rate below which its last seconds tell nothing of the rest."""
_TELLING: Final = 0.01
"""The share of a phase after which the time that is left can be told."""

READING: Final = "reading"
FETCHING: Final = "fetching"
SAMPLING: Final = "sampling"
WRITING: Final = "writing"
MEASURING: Final = "measuring"
VERIFYING: Final = "verifying"
COMPARING: Final = "comparing"
EVALUATING: Final = "running the model"
PULLING: Final = "pulling"
PUSHING: Final = "pushing"
SAVING: Final = "saving"
LOADING: Final = "loading"
COPYING: Final = "copying"
COLLECTING: Final = "collecting"

_ORDER: Final = (FETCHING, PULLING, READING, SAMPLING, WRITING, MEASURING, EVALUATING)
"""Phases that may not be foreseen: what a list of models needs is known model by model."""


class State:
    """What a picture of the progress shows.

    Attributes:
        phases: that this command has, in order; one that was not foreseen comes with its event.
        phase: the one that it is in.
        items: blobs or files of the phase, 0 where they are not counted.
        items_done: of these.
        noun: what an item is.
        nbytes: of the phase, 0 where that is not known.
        nbytes_done: of these.
        name: of what was worked on last.
        model: which of several, such as `2/5`, or empty.
        has_published: whether a name was set: of several models, one is made.
    """

    def __init__(
        self, phases: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin in the first phase."""
        self._foreseen: Final = tuple(phases)
        self.phases = self._foreseen
        self.phase = self.phases[0] if self.phases else ""
        self.items = self.items_done = 0
        self.noun = "blob"
        self.nbytes = self.nbytes_done = 0
        self.name = self.model = ""
        self.has_published = False
        self._clock = clock
        self._started = clock()
        self._is_compiling = False
        self._made = 0
        self._seen: deque[tuple[float, int]] = deque()

    @property
    def step(self) -> int:
        """The number of the phase, from 1 on."""
        return self.phases.index(self.phase) + 1

    @property
    def seconds(self) -> float:
        """How long the phase has been going on."""
        return self._clock() - self._started

    @property
    def share(self) -> float:
        """The part of the phase's bytes that is done, from 0 to 1."""
        return min(self.nbytes_done / self.nbytes, 1.0) if self.nbytes else 0.0

    @property
    def rate(self) -> float:
        """Bytes a second that are really read or written; what was there already is not.

        It is 0 in the first quarter of a second: one chunk in some microseconds read as 69 to
        210 GB/s.
        """
        now = self._clock()
        while self._seen and now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()
        seconds = min(now - self._started, _WINDOW)
        moved = max(sum(nbytes for _, nbytes in self._seen), 0)  # damaged files come again
        return moved / seconds if seconds >= _BRIEF else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the phase goes on at this rate, or None where nobody can tell."""
        rate = self.rate
        is_settled = self._clock() - self._started >= _SETTLED and self.share >= _TELLING
        if not self.nbytes or rate <= 0 or self._is_compiling or not is_settled:
            return None
        if rate * self.seconds < self._made * _STALLED:
            return None
        return (self.nbytes - self.nbytes_done) / rate

    def take(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case for each event
        """Take what was reported."""
        match event:
            # First what comes for every chunk: each case above it costs a look at its class.
            case Wrote(name, nbytes, is_new):
                self._moved(name, nbytes, is_new=is_new)
            case ModelBegun(_, number, total):
                self.model = f"{number}/{total}" if total > 1 else ""
                self.phases = self._foreseen
                self._enter(self.phases[0])
            case Fetching(_, _, files, nbytes):
                self._enter(FETCHING, files, nbytes, "file")
            case Received(name, nbytes, is_new):
                self._moved(name, nbytes, is_new=is_new)
            case Fetched():
                self._enter(READING)
            case Planned(blobs, nbytes, _, what, _):
                self._enter(WRITING, blobs, nbytes, what)
            case Compiling():
                self.name = "compiling kernels, which are kept"
                self._is_compiling = True
            case Moving(how, _, blobs, nbytes):
                self._enter(how, blobs, nbytes)
            case BlobDone() | Moved():
                self.items_done += 1
            case Sampling(tensors, nbytes):
                self._enter(SAMPLING, tensors, nbytes, "tensor")
            case Measuring(tensors, nbytes):
                self._enter(MEASURING, tensors, nbytes, "tensor")
            case Measured(name, nbytes):
                self.items_done += 1
                self._moved(name, nbytes)
            case Verified(nbytes, total):
                self._enter_once(VERIFYING, total)
                self._moved("", nbytes)
            case Compared(nbytes, total):
                self._enter_once(COMPARING, total)
                self._moved("", nbytes)
            case Evaluated(nbytes, total):
                self._enter_once(EVALUATING, total)
                self._moved("", nbytes)
            case Published():
                self.has_published = True
            case _:
                pass

    def _enter(self, phase: str, items: int = 0, nbytes: int = 0, noun: str = "blob") -> None:
        if phase not in self.phases:
            self.phases = tuple(sorted((*self.phases, phase), key=_place))
        self.phase, self.items, self.nbytes, self.noun = phase, items, nbytes, noun
        self.items_done = self.nbytes_done = 0
        self.name = ""
        self._started = self._clock()
        self._made = 0
        self._seen.clear()

    def _enter_once(self, phase: str, nbytes: int) -> None:
        if self.phase != phase or self.nbytes != nbytes:
            self._enter(phase, 0, nbytes)

    def _moved(self, name: str, nbytes: int, *, is_new: bool = True) -> None:
        self.nbytes_done += nbytes
        self.name = name or self.name
        if self._is_compiling:  # what came before says nothing of how long the rest takes
            self._is_compiling = False
            self._started = self._clock()
            self._made = 0
            self._seen.clear()
        if is_new:
            self._made += nbytes
            self._seen.append((self._clock(), nbytes))


def _place(phase: str) -> int:
    return _ORDER.index(phase) if phase in _ORDER else len(_ORDER)
