"""What was chosen within a size, and what the model would be with more bytes or fewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from importer.budget.footprint import weight_bits
from importer.budget.solver import Frontier, Options
from importer.budget.units import Unit
from importer.codecs.spec import KEEP
from importer.planning.allocation import Allocation, Chosen, Point
from importer.planning.plan import Plan
from store.tensorfile import elements

_POINTS: Final = 12
_MORE: Final = 100_000_000
"""Bytes."""


def allocation_of(  # noqa: PLR0913 - everything that is told of a choice
    plan: Plan,
    units: Sequence[Unit],
    options: Options,
    hulls: Frontier,
    picks: npt.NDArray[np.int64],
    *,
    limit: int,
    used: int,
    nbytes: int,
    bits: Fraction | None,
    extra: int,
    guesses: bool,
) -> Allocation:
    """Return what is told of a choice.

    Args:
        plan: that was chosen.
        units: whose types were.
        options: of these, with damages that are shares of the whole.
        hulls: of the options.
        picks: for each unit.
        limit: of the bytes that count.
        used: of these, by the plan.
        nbytes: of the whole model.
        bits: that were asked for each weight, or None.
        extra: bytes that count and are not data of the units.
        guesses: whether the factors of the units are, and could be measured.
    """
    data, error = options.total(picks)
    at = _points(plan, data, nbytes)
    sizes, damage = hulls.nbytes, hulls.damage
    steps = {
        int(np.abs(sizes - goal).argmin())
        for goal in np.geomspace(sizes[0], sizes[-1], _POINTS)
    }
    points = [at(int(sizes[step]), float(max(damage[step], 0.0))) for step in sorted(steps)]
    more = min(data + _MORE, int(sizes[-1]))
    return Allocation(
        limit,
        used,
        bits,
        at(data, error),
        hulls.bound(limit - extra),
        tuple(points),
        at(more, max(hulls.bound(more), 0.0)) if more > data else None,
        tuple(_chosen(units, options, picks, error)),
        guesses,
    )


def _points(plan: Plan, data: int, nbytes: int) -> Callable[[int, float], Point]:
    """Return what makes points of bytes of the units' data; headers stay as they are."""
    bits, weights = weight_bits(plan)

    def point(own: int, error: float) -> Point:
        each = (bits + 8 * (own - data)) / max(weights, 1)
        return Point(nbytes + own - data, each, error)

    return point


def _chosen(
    units: Sequence[Unit], options: Options, picks: npt.NDArray[np.int64], error: float
) -> list[Chosen]:
    everything = sum(elements(one.tensor.shape) for unit in units for one in unit.members)
    found = []
    for number, (unit, pick) in enumerate(zip(units, picks.tolist(), strict=True)):
        nbytes, damage = int(options.nbytes[number, pick]), float(options.damage[number, pick])
        count = sum(elements(one.tensor.shape) for one in unit.members)
        weight = sum(one.weight for one in unit.members)
        target = unit.targets[unit.nbytes.index(nbytes)]
        found.append(
            Chosen(
                unit.name,
                len(unit.members),
                KEEP if target is None else str(target),
                nbytes,
                weight / count,
                damage * everything / weight,
                damage / error if error else 0.0,
            )
        )
    return found
