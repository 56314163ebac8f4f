"""Values that a number is added to, as a converter does it before it writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import Runtime, Shape
from importer.codecs.views.view import View
from store.fs import Buffer

_HALF: Final = "F16"


@dataclass(frozen=True, slots=True)
class PlusOne(View):
    """Reads values and adds 1: to F16 in F16, to every other float in F32.

    llama.cpp's converter takes what is neither for F32, and PyTorch rounds each sum once.

    Attributes:
        inner: reads floats.
    """

    @property
    def is_plain(self) -> bool:
        """Return True: sums are floats."""
        return True

    @property
    def value_dtype(self) -> str:
        """Return the dtype in which the sum is."""
        return _HALF if self.inner.value_dtype == _HALF else "F32"

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the sums."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of, to_f32  # noqa: PLC0415

        values = self.inner.decode(arrays, shape, elements, runtime)
        sums = to_f32(values, self.inner.value_dtype).view("<f4") + np.float32(1)
        return bytes_of(sums.astype("<f2") if self.value_dtype == _HALF else sums)
