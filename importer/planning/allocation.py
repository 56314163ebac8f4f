"""How types were chosen within a size: what was met, and what more or less would give."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Point(NamedTuple):
    """A size that the model could have.

    Attributes:
        nbytes: of the whole model.
        bits: for each weight.
        error: expected; see `Allocation`.
    """

    nbytes: int
    bits: float
    error: float


class Chosen(NamedTuple):
    """What tensors that get one type become.

    Attributes:
        name: of the first of them, the numbers of experts replaced by `*`.
        tensors: that there are.
        type: as it is spelled, or `keep`.
        nbytes: of their data.
        factor: how much their error matters, the mean over their elements.
        error: squared error over squared values, of the sample; the mean likewise.
        share: of what is expected to be lost of the model, from 0 to 1.
    """

    name: str
    tensors: int
    type: str
    nbytes: int
    factor: float
    error: float
    share: float


class Allocation(NamedTuple):
    """Types that were chosen within a size.

    An error is the squared error over the squared values, the mean over all elements whose
    types were chosen, each times its factor. Where all factors are 1 that is 10^(-SQNR/10).

    Attributes:
        limit: bytes that were allowed: of the whole model, or of the data of its weights.
        used: of these.
        bits: that were allowed for each weight, or None where a size was.
        point: the model that was chosen.
        bound: an error below which no choice of this size is.
        points: sizes that the model could have, the smallest first, and with it the best.
        more: what 100 MB more would give, or all that can be had if that is less; None where
            nothing can.
        chosen: what became of each unit.
        guesses: whether factors are the recipe's, of a model whose own can be measured.
    """

    limit: int
    used: int
    bits: Fraction | None
    point: Point
    bound: float
    points: tuple[Point, ...]
    more: Point | None
    chosen: tuple[Chosen, ...]
    guesses: bool

    @property
    def is_best(self) -> bool:
        """Whether every tensor has the best type that is allowed."""
        return self.point.error <= self.points[-1].error
