"""How far decoded values are from their source: sums in a fixed order.

Sums of squares are taken in float64, in `LANES` lanes of which each adds every `LANES`-th
element, one after the other; the lanes are added at the end, in order. So they are the same on
every machine, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Floats

LANES: Final = 64
SUMS: Final = 4
"""Squares of the source, squares of what was decoded, their products, squares of the errors."""


@dataclass(slots=True)
class Sums:
    """Sums over the elements so far.

    Attributes:
        lanes: float64 of shape (SUMS, LANES).
        largest: absolute error.
        clipped: elements beyond the range of their group, by more than half its last step.
        zeroed: elements that were not zero and are now.
    """

    lanes: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((SUMS, LANES)))
    largest: float = 0.0
    clipped: int = 0
    zeroed: int = 0


def add(sums: Sums, source: Floats, decoded: Floats, low: Floats, high: Floats) -> None:
    """Add some groups, of shape (groups, group size).

    Args:
        sums: of what came before.
        source: values.
        decoded: values of the same shape.
        low: of each group, below which a value is clipped.
        high: above which it is.
    """
    x, y = _rows(source), _rows(decoded)
    errors = y - x
    for lane, terms in zip(sums.lanes, (x * x, y * y, x * y, errors * errors), strict=True):
        # Along the first axis numpy adds row after row.
        lane[:] = np.add.reduce(np.vstack([lane, terms]), axis=0)
    # NaNs are passed over: the sums show them.
    sums.largest = float(np.fmax.reduce(np.abs(errors), axis=None, initial=sums.largest))
    sums.clipped += int(np.count_nonzero((source < low[:, None]) | (source > high[:, None])))
    sums.zeroed += int(np.count_nonzero((source != 0) & (decoded == 0)))


def _rows(values: Floats) -> npt.NDArray[np.float64]:
    flat = values.reshape(-1).astype(np.float64)
    return np.pad(flat, (0, -len(flat) % LANES)).reshape(-1, LANES)
