"""How far decoded values are from their source, in the usual measures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """Sums over the values x of a tensor and the values y that they are decoded to.

    Attributes:
        elements: of the tensor.
        sum_x2: of the squares of its values.
        sum_y2: of the squares of the decoded values.
        sum_xy: of the products of both.
        sum_err2: of the squares of the errors y - x.
        max_err: the largest absolute error.
        clipped: elements beyond the range of their group, by more than half its last step.
        zeroed: elements that were not zero and are now.
    """

    elements: int
    sum_x2: float
    sum_y2: float
    sum_xy: float
    sum_err2: float
    max_err: float
    clipped: int
    zeroed: int

    @property
    def rmse(self) -> float:
        """Root mean square error, relative to the root mean square of the source."""
        return math.sqrt(self.sum_err2 / self.sum_x2) if self.sum_x2 else 0.0

    @property
    def sqnr(self) -> float:
        """Signal-to-quantization-noise ratio in dB; infinite where nothing was lost."""
        if not self.sum_err2:
            return math.inf
        if not self.sum_x2:
            return -math.inf
        # Not of the quotient, which may be too small for a float.
        return 10 * (math.log10(self.sum_x2) - math.log10(self.sum_err2))

    @property
    def cosine(self) -> float:
        """Cosine of the angle between source and decoded values."""
        lengths = math.sqrt(self.sum_x2) * math.sqrt(self.sum_y2)
        return self.sum_xy / lengths if lengths else 1.0

    @property
    def is_finite(self) -> bool:
        """Whether the sums are numbers; where values are NaN or infinite they are not."""
        sums = (self.sum_x2, self.sum_y2, self.sum_xy, self.sum_err2, self.max_err)
        return all(map(math.isfinite, sums))

    @classmethod
    def total(cls, parts: Iterable[Deviation]) -> Deviation:
        """Return the deviation of several tensors together."""
        found = list(parts)
        return cls(
            sum(part.elements for part in found),
            math.fsum(part.sum_x2 for part in found),
            math.fsum(part.sum_y2 for part in found),
            math.fsum(part.sum_xy for part in found),
            math.fsum(part.sum_err2 for part in found),
            max((part.max_err for part in found), default=0.0),
            sum(part.clipped for part in found),
            sum(part.zeroed for part in found),
        )
