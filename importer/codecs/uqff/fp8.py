"""FP8 of mistral.rs: weights in E4M3, with one scale for the whole tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from importer.codecs.base import (
    Decoder,
    Encoded,
    KernelSpec,
    Operation,
    Part,
    Runtime,
    Shape,
    Span,
)
from store.fs import Buffer
from store.tensorblob import WEIGHT

SCALES: Final = (".dequant_w_scale", ".dequant_x_scale", ".quant_scale")
"""The scalars of F32 beside the weights: their factor, twice, and the inverse of it."""
_VALUES: Final = "F32"
_SCALAR: Final = 4


@dataclass(frozen=True, slots=True)
class ToFp8:
    """Converts values to FP8, once a survey has found the scale.

    Attributes:
        decoder: of values in F32.
        scale: that they are multiplied by; 0 before the survey.
    """

    decoder: Decoder
    scale: float = 0

    @property
    def is_lossless(self) -> bool:
        """Return False: values are rounded."""
        return False

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the weights, then the scalars."""
        scalars = (Part(suffix, "F32", ()) for suffix in SCALES)
        return (Part(WEIGHT, "F8_E4M3", shape), *scalars)

    def unit(self, shape: Shape) -> int:
        """Return the decoder's unit."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs."""
        return self.decoder.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Multiply and round, and give each number with the last element."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import floats, fp8  # noqa: PLC0415

        assert self.scale, "a survey comes first"
        bits = floats.read(self.decoder.decode(arrays, shape, elements, runtime), _VALUES)
        scale = np.float32(self.scale)
        with np.errstate(all="ignore"):
            codes = fp8.encode(floats.widen(bits, _VALUES), scale)
        count = math.prod(shape)
        there = slice(_SCALAR * elements.start // count, _SCALAR * elements.stop // count)
        inverse = (np.float32(1) / scale).tobytes()[there]
        numbers = (inverse, inverse, scale.tobytes()[there])
        return Encoded((codes.data, *numbers), floats.count_nonfinite(bits, _VALUES))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the decoder's."""
        return self.decoder.kernels(Operation.DECODE)

    def survey(self) -> Fp8Survey:
        """Look for the largest value."""
        return Fp8Survey(self)


class Fp8Survey:
    """Finds the scale of a tensor."""

    def __init__(self, asked: ToFp8) -> None:
        """Begin."""
        self._asked = asked
        self._largest = 0.0

    def look(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> None:
        """Take some elements."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import floats, fp8  # noqa: PLC0415

        values = self._asked.decoder.decode(arrays, shape, elements, runtime)
        with np.errstate(all="ignore"):
            largest = fp8.largest_of(floats.widen(floats.read(values, _VALUES), _VALUES))
        self._largest = max(self._largest, float(largest))

    def transcoder(self) -> ToFp8:
        """Return what converts with the scale."""
        from importer.codecs.reference import fp8  # noqa: PLC0415

        return replace(self._asked, scale=float(fp8.scale_of(self._largest)))
