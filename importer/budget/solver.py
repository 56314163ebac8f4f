"""Choose one option for each unit, so that all fit and the sum of damages is least.

A multiple-choice knapsack (Sinha and Zoltners 1979, doi:10.1287/opre.27.3.503). Its linear
relaxation is solved by the lower convex hull of each unit's options, all of whose steps are
taken in the order of what a byte buys. That leaves less room than one step needs, which is
filled by single moves, and then by exchanges of up to four.

Bytes are integers, damages float64, sums in the order of the units, ties go to the first: the
same choice on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

_NOWHERE: Final = np.int64(1) << 60
"""Bytes of an option that a unit does not have: more than any room."""
_NEAR: Final = 2e-6
"""Of the bound: a choice so near to it is not exchanged any more."""
_NOTHING: Final = 1e-12
"""Of the most damage: what rounding leaves of differences where there should be none."""
_ROUNDS: Final = 200
"""Of exchanges, at most."""
_MOVES: Final = 500
"""Of which exchanges are made: a table of all pairs takes 20 ms."""


class Options(NamedTuple):
    """What units may become, a row each.

    Attributes:
        nbytes: of each option, -1 where a unit does not have it.
        damage: of each option; not negative.
    """

    nbytes: _Ints
    damage: _Floats

    def total(self, picks: _Ints) -> tuple[int, float]:
        """Return bytes and damage of a choice."""
        rows = np.arange(len(picks))
        return int(self.nbytes[rows, picks].sum()), math.fsum(self.damage[rows, picks])


class Frontier(NamedTuple):
    """The choices that the linear relaxation passes through, from the smallest to the best.

    Attributes:
        start: the smallest option of each unit; of equal ones the least damage.
        units: of each step.
        options: that each step takes its unit to.
        nbytes: of the choice before each step, and after the last one.
        damage: likewise.
    """

    start: _Ints
    units: _Ints
    options: _Ints
    nbytes: _Ints
    damage: _Floats

    def steps_within(self, room: int) -> int:
        """Return how many steps, in order, fit into so many bytes."""
        return int(np.searchsorted(self.nbytes, room, side="right")) - 1

    def choice(self, steps: int) -> _Ints:
        """Return the choice after some steps."""
        picks = self.start.copy()
        # A unit's steps are in order, and the last assignment to an index stays.
        picks[self.units[:steps]] = self.options[:steps]
        return picks

    def price(self, steps: int) -> float:
        """Return what a byte gains in the step after some steps, or in the last one."""
        at = min(steps, len(self.units) - 1)
        if at < 0:
            return 0.0
        gained = self.damage[at] - self.damage[at + 1]
        return float(gained / (self.nbytes[at + 1] - self.nbytes[at]))

    def bound(self, room: int) -> float:
        """Return a damage that no choice within so many bytes is below."""
        steps = self.steps_within(room)
        if steps == len(self.units):
            return float(self.damage[-1])
        (low, high), (before, after) = (
            column[steps : steps + 2] for column in (self.nbytes, self.damage)
        )
        share = (room - int(low)) / int(high - low)
        return float(before - (before - after) * share)


def frontier(options: Options) -> Frontier:
    """Return the steps of the lower convex hulls of all units, the best for a byte first."""
    nbytes = np.where(options.nbytes < 0, _NOWHERE, options.nbytes)
    damage = np.where(options.nbytes < 0, np.inf, options.damage)
    # By size, so that the first of equal slopes is the shortest step.
    order = np.lexsort((damage, nbytes), axis=1)
    nbytes, damage = (np.take_along_axis(one, order, 1) for one in (nbytes, damage))
    rows = np.arange(len(nbytes))
    current = np.zeros(len(nbytes), np.int64)
    least = np.full(len(nbytes), np.inf)
    found: list[tuple[_Ints, _Ints, _Floats, _Ints, _Floats]] = [_NO_STEPS]
    while len(rows):
        own_bytes, own_damage = nbytes[rows, current, None], damage[rows, current, None]
        more, better = nbytes[rows] - own_bytes, own_damage - damage[rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            slopes = np.where((more > 0) & (better > 0), better / more, -1.0)
        to = slopes.argmax(axis=1)
        here = np.arange(len(rows))
        steep = slopes[here, to]
        goes = steep > 0
        rows, to, here = rows[goes], to[goes], here[goes]
        # Rounding may make a later slope the larger one of a unit; steps stay in order.
        least = np.minimum(least[goes], steep[goes])
        found.append((rows, order[rows, to], least, more[here, to], better[here, to]))
        current = to
    units, targets, slopes, more, better = (
        np.concatenate(column) for column in zip(*found, strict=True)
    )
    ranks = np.repeat(np.arange(len(found)), [len(part[0]) for part in found])
    steps = np.lexsort((ranks, units, -slopes))
    first_bytes, first_damage = int(nbytes[:, 0].sum()), math.fsum(damage[:, 0])
    damages = np.concatenate([[first_damage], -better[steps]]).cumsum()
    return Frontier(
        order[:, 0],
        units[steps],
        targets[steps],
        np.concatenate([[first_bytes], more[steps]]).cumsum(dtype=np.int64),
        np.where(damages > _NOTHING * first_damage, damages, 0.0),
    )


_NO_STEPS: Final = (
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0),
    np.empty(0, np.int64),
    np.empty(0),
)


def solve(options: Options, hulls: Frontier, room: int) -> _Ints:
    """Return an option for each unit, all within `room` bytes.

    Args:
        options: of the units.
        hulls: the frontier of these options.
        room: at least the bytes of `hulls.start`.
    """
    steps = hulls.steps_within(room)
    picks, bound, price = hulls.choice(steps), hulls.bound(room), hulls.price(steps)
    room = _fill(options, picks, room - options.total(picks)[0])
    for _ in range(_ROUNDS):
        damage = options.total(picks)[1]
        if damage - bound <= _NEAR * bound:
            break
        moves = _Moves.of(options, picks).nearest(price)
        exchange = moves.best_exchange(room)
        if exchange.damage >= -_NEAR * _NEAR * damage:
            break
        for move in exchange.moves:
            picks[moves.units[move]] = moves.options[move]
        room = _fill(options, picks, room - exchange.nbytes)
    return picks


def improvements(options: Options, picks: _Ints, room: int, price: float) -> Iterator[_Ints]:
    """Yield choices that one or two changes of another make and that lose less, the best first.

    Args:
        options: of the units.
        picks: the choice that is changed.
        room: bytes that may be added at most.
        price: what a byte gains: of many changes those that lose least at it are tried.
    """
    moves = _Moves.of(options, picks).nearest(price)
    ones, others = moves.pairs()
    nbytes = moves.nbytes[ones] + moves.nbytes[others]
    damage = moves.damage[ones] + moves.damage[others]
    fits = np.flatnonzero((nbytes <= room) & (damage < 0))
    for pair in fits[np.argsort(damage[fits], kind="stable")].tolist():
        changed = picks.copy()
        for move in (ones[pair], others[pair]):
            if moves.units[move] >= 0:
                changed[moves.units[move]] = moves.options[move]
        yield changed


def _fill(options: Options, picks: _Ints, room: int) -> int:
    """Make single moves that fit, those that gain most first; return the room that is left."""
    while True:
        moves = _Moves.of(options, picks)
        fits = np.flatnonzero((moves.nbytes <= room) & (moves.damage < 0))
        moved: set[int] = set()
        for move in fits[np.argsort(moves.damage[fits], kind="stable")].tolist():
            unit = int(moves.units[move])
            if moves.nbytes[move] <= room and unit not in moved:
                picks[unit] = moves.options[move]
                room -= int(moves.nbytes[move])
                moved.add(unit)
        if not moved:
            return room


class _Exchange(NamedTuple):
    """Some moves of different units."""

    damage: float
    nbytes: int
    moves: tuple[int, ...]


class _Moves(NamedTuple):
    """Changes of one unit each, in the order of units and options."""

    units: _Ints
    options: _Ints
    nbytes: _Ints
    damage: _Floats

    @classmethod
    def of(cls, options: Options, picks: _Ints) -> _Moves:
        """Return every change that is of use: it gains something, or frees bytes."""
        rows = np.arange(len(picks))
        nbytes = options.nbytes - options.nbytes[rows, picks, None]
        damage = options.damage - options.damage[rows, picks, None]
        units, targets = np.nonzero((options.nbytes >= 0) & ((damage < 0) | (nbytes < 0)))
        return cls(units, targets, nbytes[units, targets], damage[units, targets])

    def nearest(self, price: float) -> _Moves:
        """Return those that lose least at a price of a byte, and one that changes nothing."""
        lost = self.damage + price * self.nbytes
        few = np.sort(np.argsort(lost, kind="stable")[:_MOVES])
        return _Moves(
            np.append(self.units[few], -1),
            np.append(self.options[few], 0),
            np.append(self.nbytes[few], 0),
            np.append(self.damage[few], 0.0),
        )

    def pairs(self) -> tuple[_Ints, _Ints]:
        """Return places of two moves of different units, of which the second may be none."""
        ones, others = np.triu_indices(len(self.units))
        is_none = others == len(self.units) - 1
        usable = is_none | (self.units[ones] != self.units[others])
        return ones[usable], others[usable]

    def best_exchange(self, room: int) -> _Exchange:
        """Return two pairs of moves that fit together and gain most.

        The last move changes nothing, so that two or three are among them.
        """
        ones, others = self.pairs()
        nbytes = self.nbytes[ones] + self.nbytes[others]
        order = np.argsort(nbytes, kind="stable")
        ones, others, nbytes = ones[order], others[order], nbytes[order]
        damage = self.damage[ones] + self.damage[others]
        best = _first_least(damage)
        last = np.searchsorted(nbytes, room - nbytes, side="right") - 1
        firsts = np.flatnonzero(last >= 0)
        seconds = best[last[firsts]]
        sums = damage[firsts] + damage[seconds]
        for these in (ones, others):
            for those in (ones, others):
                unit = self.units[these[firsts]]
                sums[(unit >= 0) & (unit == self.units[those[seconds]])] = np.inf
        at = int(sums.argmin())
        first, second = int(firsts[at]), int(seconds[at])
        moves = (ones[first], others[first], ones[second], others[second])
        used = tuple(int(move) for move in moves if self.units[move] >= 0)
        return _Exchange(float(sums[at]), int(nbytes[first] + nbytes[second]), used)


def _first_least(values: _Floats) -> _Ints:
    """Return for each place where the least value up to it stands, the first of equal ones."""
    least = np.minimum.accumulate(values)
    is_new = np.concatenate([[True], least[1:] < least[:-1]])
    return np.maximum.accumulate(np.where(is_new, np.arange(len(values)), 0))
