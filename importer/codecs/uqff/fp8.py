"""FP8 of mistral.rs: weights in E4M3, with one scale for the whole tensor.

Values are BF16, of which there are 65 536: what each becomes with a scale is looked up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from importer.codecs.reference import Codes

SCALES: Final = (".dequant_w_scale", ".dequant_x_scale", ".quant_scale")
"""The scalars of F32 beside the weights: their factor, twice, and the inverse of it."""
VALUES: Final = "BF16"
"""The dtype that values are rounded to before all else."""
_KEPT: Final = 16
"""Tables of scales: tensors that are converted at once."""
_SCALAR: Final = 4
_MAGNITUDE: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class ToFp8:
    """Converts values to FP8, once a survey has found the scale.

    Attributes:
        decoder: of values in BF16.
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

        from importer.codecs.reference import floats  # noqa: PLC0415

        assert self.scale, "a survey comes first"
        bits = floats.read(self.decoder.decode(arrays, shape, elements, runtime), VALUES)
        scale = np.float32(self.scale)
        codes = _codes(self.scale)[bits]
        count = math.prod(shape)
        there = slice(_SCALAR * elements.start // count, _SCALAR * elements.stop // count)
        inverse = (np.float32(1) / scale).tobytes()[there]
        numbers = (inverse, inverse, scale.tobytes()[there])
        return Encoded((codes.data, *numbers), floats.count_nonfinite(bits, VALUES))

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
        self._largest = 0

    def look(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> None:
        """Take some elements."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import floats  # noqa: PLC0415

        values = self._asked.decoder.decode(arrays, shape, elements, runtime)
        sizes = floats.read(values, VALUES) & np.uint16(_MAGNITUDE)  # grow as the values do
        self._largest = max(self._largest, int(sizes.max(initial=0)))

    def transcoder(self) -> ToFp8:
        """Return what converts with the scale."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import floats, fp8  # noqa: PLC0415

        (largest,) = floats.widen(np.array([self._largest], np.uint16), VALUES)
        return replace(self._asked, scale=float(fp8.scale_of(float(largest))))


@functools.lru_cache(_KEPT)
def _codes(scale: float) -> Codes:
    """Return what each BF16 becomes, by its bits."""
    import numpy as np  # noqa: PLC0415 - a plan needs no numpy

    from importer.codecs.reference import floats, fp8  # noqa: PLC0415

    every = floats.widen(np.arange(1 << 16, dtype=np.uint16), VALUES)
    with np.errstate(all="ignore"):
        return fp8.encode(every, np.float32(scale))
