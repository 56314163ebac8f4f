"""The least squared error that any byte of a scale gives a group of nvfp4 or mxfp4.

Of all bytes that are finite scales, with the nearest value for each weight, in float64. What
cannot be better than what was found is not tried: under a scale whose half step is above the
largest weight all become zero, and under a small one the largest weight alone loses more.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from importer.codecs.reference.minifloats import E2M1_MAGNITUDES, E4M3_NAN, E4M3_VALUES
from importer.codecs.spec import Mode, QuantSpec

Doubles = npt.NDArray[np.float64]
LARGEST: Final = float(E2M1_MAGNITUDES[-1])
_EDGES: Final = (E2M1_MAGNITUDES[1:] + E2M1_MAGNITUDES[:-1]).astype(float) / 2
_E8M0: Final = np.ldexp(1.0, np.arange(255) - 127)
"""The value of each byte but the last, which is NaN."""


def scales_of(spec: QuantSpec) -> Doubles:
    """Return every scale that the type can store, ascending."""
    stored: npt.NDArray[Any] = E4M3_VALUES[:E4M3_NAN] if spec.mode is Mode.NVFP4 else _E8M0
    return stored.astype(float)


def squared_errors(groups: Doubles, scale: float) -> Doubles:
    """Return the sum of squared errors of each group, a row, under one scale."""
    if scale == 0:
        return np.square(groups).sum(axis=1)
    sizes = np.abs(groups)
    nearest = E2M1_MAGNITUDES[np.searchsorted(_EDGES, sizes / scale)].astype(float)
    return np.square(sizes - nearest * scale).sum(axis=1)


def least_errors(groups: Doubles, spec: QuantSpec) -> Doubles:
    """Return for each group the least sum of squared errors of all scales."""
    largest = np.abs(groups).max(axis=1)
    least = np.square(groups).sum(axis=1)  # of zeros: what every larger scale gives
    for scale in scales_of(spec)[::-1].tolist():
        is_seen = largest > scale * _EDGES[0]
        lost = np.square(np.maximum(largest - LARGEST * scale, 0))
        at = np.flatnonzero(is_seen & (lost < least))
        if at.size:
            least[at] = np.minimum(least[at], squared_errors(groups[at], scale))
    return least
