"""Statistics of the values of one tensor, gathered piece by piece in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import floats
from importer.codecs.reference.packing import unpack_stream
from importer.codecs.spec import QuantSpec
from store.errors import UnsupportedError
from store.fs import Buffer

BINS: Final = 48
"""Of the histogram."""
_SPAN: Final = 4.0
"""Standard deviations to each side of the mean that the histogram covers at most."""
_OUTLIER: Final = 6.0
"""Standard deviations from the mean beyond which a value is an outlier: one of 5e8 of normally
distributed values is."""
_STORED: Final = {
    **{f"I{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    "BOOL": "u1",
    "F64": "<f8",
}
_FP8: Final = frozenset({"F8_E4M3", "F8_E5M2"})

Values = npt.NDArray[Any]


def values_of(data: Buffer, dtype: str) -> Values:
    """Return bytes of a dtype as numbers that numpy computes with, exactly.

    Raises:
        UnsupportedError: the dtype is not one whose values are known.
    """
    if dtype in _STORED:
        return np.frombuffer(data, _STORED[dtype])
    if dtype in _FP8:
        return floats.widen(floats.read(data, dtype), "BF16")
    if dtype in {"BF16", "F16", "F32"}:
        return floats.widen(floats.read(data, dtype), dtype)
    message = f"values of {dtype} cannot be read"
    raise UnsupportedError(message, code="E_DTYPE")


@dataclass(slots=True)
class Moments:
    """What one pass over the values of a tensor tells.

    Attributes:
        count: of the values that are finite.
        mean: of these.
        squares: sum of the squared distances from the mean.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    zeros: int = 0
    nans: int = 0
    infinities: int = 0

    def add(self, values: Values) -> None:
        """Add some values, as Chan, Golub and LeVeque combine sums."""
        found = values.astype(np.float64)
        finite = np.isfinite(found)
        if not finite.all():
            nans = int(np.count_nonzero(np.isnan(found)))
            self.nans += nans
            self.infinities += int(len(found) - np.count_nonzero(finite)) - nans
            found = found[finite]
        if not len(found):
            return
        self.zeros += int(len(found) - np.count_nonzero(found))
        self.least = min(self.least, float(found.min()))
        self.most = max(self.most, float(found.max()))
        count, mean = len(found), float(found.mean())
        found -= mean
        squares = float(np.square(found).sum())
        total, distance = self.count + count, mean - self.mean
        self.squares += squares + distance * distance * self.count * count / total
        self.mean += distance * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """Standard deviation, of all values and not of a sample."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0


@dataclass(slots=True)
class Histogram:
    """What a second pass tells: how the values are distributed.

    Attributes:
        low: where the first of the bins begins; values below it are not in any.
        high: where the last one ends.
        outliers: values that are more than 6 standard deviations from the mean.
    """

    low: float
    high: float
    mean: float
    far: float
    bins: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    outliers: int = 0

    @classmethod
    def of(cls, moments: Moments) -> Histogram:
        """Return an empty histogram for values of which the moments are known."""
        reach = _SPAN * moments.deviation
        low = max(moments.least, moments.mean - reach)
        high = min(moments.most, moments.mean + reach)
        return cls(low, high, moments.mean, _OUTLIER * moments.deviation)

    def add(self, values: Values) -> None:
        """Add some values."""
        found = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            inside = found[(found >= self.low) & (found <= self.high)]
            beyond = np.abs(found - self.mean) > self.far
        self.outliers += int(np.count_nonzero(beyond & np.isfinite(found)))
        width = self.high - self.low
        if width > 0:
            places = ((inside - self.low) * (BINS / width)).astype(np.int64)
            np.minimum(places, BINS - 1, out=places)
        else:
            places = np.full(len(inside), BINS // 2)
        self.bins += np.bincount(places, minlength=BINS)


@dataclass(slots=True)
class Codes:
    """Which codes a quantized tensor uses, and how many of its groups are all zero.

    Attributes:
        counts: of each code.
        groups: of the tensor.
        zeroed: groups all of whose values are zero.
    """

    spec: QuantSpec
    counts: npt.NDArray[np.int64]
    groups: int = 0
    zeroed: int = 0

    @classmethod
    def of(cls, spec: QuantSpec) -> Codes:
        """Return the codes of a tensor of which nothing was seen."""
        return cls(spec, np.zeros(1 << spec.bits, np.int64))

    def add(self, arrays: Sequence[Buffer], values: Values) -> None:
        """Add whole groups.

        Args:
            arrays: as the type stores them, the packed codes first.
            values: that they are decoded to.
        """
        packed = np.frombuffer(arrays[0], np.uint8).reshape(-1, self.spec.bits)
        codes = unpack_stream(packed, self.spec.bits)
        self.counts += np.bincount(codes.reshape(-1), minlength=len(self.counts))
        groups = values.reshape(-1, self.spec.group_size)
        self.groups += len(groups)
        self.zeroed += int(np.count_nonzero(~groups.any(axis=1)))
