"""How far decoded values are from their source, in the usual measures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """Sums over the values of a tensor and what they are decoded to.

    Attributes:
        elements: of the tensor.
        source: sum of the squares of its values.
        decoded: sum of the squares of the decoded values.
        product: sum of the products of both.
        error: sum of the squared errors.
        largest: absolute error.
        clipped: elements beyond the range of their group, by more than half its last step.
        zeroed: elements that were not zero and are now.
    """

    elements: int
    source: float
    decoded: float
    product: float
    error: float
    largest: float
    clipped: int
    zeroed: int

    @property
    def rmse(self) -> float:
        """Root mean square error, relative to the root mean square of the source."""
        return math.sqrt(self.error / self.source) if self.source else 0.0

    @property
    def sqnr(self) -> float:
        """Signal-to-quantization-noise ratio in dB; infinite where nothing was lost."""
        if not self.error:
            return math.inf
        if not self.source:
            return -math.inf
        # Not of the quotient, which may be too small for a float.
        return 10 * (math.log10(self.source) - math.log10(self.error))

    @property
    def cosine(self) -> float:
        """Cosine of the angle between source and decoded values."""
        lengths = math.sqrt(self.source) * math.sqrt(self.decoded)
        return self.product / lengths if lengths else 1.0

    @property
    def is_finite(self) -> bool:
        """Whether the sums are numbers; where values are NaN or infinite they are not."""
        sums = (self.source, self.decoded, self.product, self.error, self.largest)
        return all(map(math.isfinite, sums))

    @classmethod
    def total(cls, parts: Iterable[Deviation]) -> Deviation:
        """Return the deviation of several tensors together."""
        found = list(parts)
        return cls(
            sum(part.elements for part in found),
            math.fsum(part.source for part in found),
            math.fsum(part.decoded for part in found),
            math.fsum(part.product for part in found),
            math.fsum(part.error for part in found),
            max((part.largest for part in found), default=0.0),
            sum(part.clipped for part in found),
            sum(part.zeroed for part in found),
        )
