"""Values that a converter changed, changed back: in F32, in which it changed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

from importer.codecs.base import Runtime, Shape
from importer.codecs.views.view import View
from store.fs import Buffer


@unique
class Change(StrEnum):
    """What llama.cpp's converter did to values, as numbers of F32.

    Neither can be undone to the bit for every number: the sum was rounded, and so were the
    exponential and the logarithm.
    """

    PLUS_ONE = "plus one"
    MINUS_EXP = "minus exp"

    @property
    def error(self) -> str:
        """How far the result may be from what the converter was given."""
        match self:
            case Change.PLUS_ONE:
                return "within 6e-8 of the larger of 1 and the value"
            case Change.MINUS_EXP:
                return "within 1.2e-7 of the larger of 1 and the value"


@dataclass(frozen=True, slots=True)
class Undone(View):
    """Reads values and undoes a change; the result is F32.

    Attributes:
        inner: reads floats.
    """

    change: Change

    @property
    def value_dtype(self) -> str:
        """Return F32."""
        return "F32"

    @property
    def is_plain(self) -> bool:
        """Return True: what was changed back is a float."""
        return True

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values before the change, in F32."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference.matrices import bytes_of, logarithm, to_f32  # noqa: PLC0415

        values = self.inner.decode(arrays, shape, elements, runtime)
        found = to_f32(values, self.inner.value_dtype).view("<f4")
        if self.change is Change.PLUS_ONE:
            return bytes_of(found - np.float32(1))
        return bytes_of(logarithm(-found))
