"""The arithmetic of each family in numpy: the specification, and what runs without a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from importer.codecs.spec import QuantSpec

Bits = npt.NDArray[np.unsignedinteger[Any]]
"""Elements as they are stored: U16 for BF16 and F16, U32 for F32, U8 for smaller ones."""
Floats = npt.NDArray[np.float32]
"""Values, exact: every dtype that is quantized fits into float32."""
Codes = npt.NDArray[np.uint8]
"""One code in each byte, not packed yet."""


class Arithmetic(Protocol):
    """The arithmetic of a family; modules implement it."""

    def encode(
        self, values: Floats, dtype: str, spec: QuantSpec, *weights: Floats
    ) -> tuple[Bits, ...]:
        """Quantize `values` of shape (groups, group size), which came as `dtype`.

        Where scales are searched for, `weights` of the same shape may follow.

        Returns:
            codes: one byte for each value.
            scale_parts: one element for each group, in the order of the file.
        """
        ...

    def decode(
        self, codes: Codes, scale_parts: Sequence[Bits], dtype: str, spec: QuantSpec
    ) -> Floats:
        """Return the values of codes of shape (groups, group size), rounded to `dtype`."""
        ...
