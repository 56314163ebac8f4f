"""Converting to HQQ of mistral.rs, whose groups lie across the tensor."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

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
    from importer.codecs.reference import Floats

GROUP: Final = 64
"""Rows of the matrix of groups."""
STEPS: Final = 10
"""Of the search for zero points, at most."""
SCALE, ZERO = ".scales", ".zeros"
_VALUES: Final = "F32"
_BYTE: Final = 8
_LARGEST: Final = 1e4
"""An error that every first one is below."""


@dataclass(frozen=True, slots=True)
class ToHqq:
    """Converts values to HQQ, once a survey has found how many steps the search takes.

    All elements in row-major order are a matrix of 64 rows, of which each column is a group.
    Elements are numbered here column by column, so that a range of them is whole groups: of
    each array they are in one run of every row.

    Attributes:
        decoder: of values in F32.
        bits: of a code, 4 or 8.
        steps: 0 before the survey.
    """

    decoder: Decoder
    bits: int
    steps: int = 0

    @property
    def is_lossless(self) -> bool:
        """Return False: values are rounded to codes."""
        return False

    @property
    def packed_rows(self) -> int:
        """Rows of bytes, which are the first parts."""
        return GROUP * self.bits // _BYTE

    def can_read(self, shape: Shape) -> bool:
        """Return whether the elements are groups, and each row of a group can be read alone."""
        count = math.prod(shape)
        if not count or count % GROUP or count // GROUP % self.decoder.unit(shape):
            return False
        width = count // GROUP
        rows = (self.decoder.spans(shape, _row(row, width, 0, width)) for row in range(GROUP))
        flat = [tuple((span.begin, span.nbytes, span.runs) for span in spans) for spans in rows]
        return all(
            place == (number * nbytes, nbytes, 1)
            for number, places in enumerate(flat)
            for place, (_, nbytes, _) in zip(places, flat[0], strict=True)
        )

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return each row of bytes, then scales and zero points."""
        width = math.prod(shape) // GROUP
        suffixes = (WEIGHT, *(f".{row}" for row in range(1, self.packed_rows)))
        rows = (Part(suffix, "U8", (width,)) for suffix in suffixes)
        return (*rows, Part(SCALE, _VALUES, (1, width)), Part(ZERO, _VALUES, (1, width)))

    def unit(self, shape: Shape) -> int:
        """Return the elements of the fewest groups that the decoder can read."""
        return GROUP * self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return a run of every row."""
        if not len(elements):
            return tuple(Span(0, 0) for _ in self.decoder.spans(shape, range(0)))
        first, second = (
            self.decoder.spans(shape, _columns(row, shape, elements)) for row in (0, 1)
        )
        return tuple(
            Span(one.begin, GROUP * one.nbytes, GROUP, other.begin - one.begin)
            for one, other in zip(first, second, strict=True)
        )

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Search zero points, and quantize."""
        from importer.codecs.uqff import hqq_groups  # noqa: PLC0415 - it imports numpy

        assert self.steps, "a survey comes first"
        values, nonfinite = self.values(arrays, shape, elements, runtime)
        kernel = runtime.kernel(HqqKernel(self.bits))
        made = hqq_groups.encode(values, self.bits, self.steps, kernel)
        parts = (*made.packed, made.scales.view("u1"), made.zeros.view("u1"))
        return Encoded(tuple(part.data for part in parts), nonfinite)

    def values(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> tuple[Floats, int]:
        """Return values of shape (64, groups), and how many of them are not finite."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        from importer.codecs.reference import floats  # noqa: PLC0415

        made = np.empty((GROUP, len(elements) // GROUP), np.uint32)
        views = [memoryview(array).cast("B") for array in arrays]
        for row in range(GROUP):
            runs = [
                view[len(view) // GROUP * row : len(view) // GROUP * (row + 1)]
                for view in views
            ]
            there = _columns(row, shape, elements)
            decoded = self.decoder.decode(runs, shape, there, runtime)
            made[row] = np.frombuffer(decoded, np.uint32)
        return floats.widen(made, _VALUES), floats.count_nonfinite(made, _VALUES)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the decoder's, and that of the search."""
        return (*self.decoder.kernels(Operation.DECODE), HqqKernel(self.bits))

    def survey(self) -> HqqSurvey:
        """Look when the search stops."""
        return HqqSurvey(self)


class HqqSurvey:
    """Finds how many steps the search of a tensor takes.

    It stops where the mean error of the whole tensor does not get smaller. mistral.rs adds
    errors in float32, in an order that depends on the processor, we in float64.
    """

    def __init__(self, asked: ToHqq) -> None:
        """Begin."""
        self._asked = asked
        self._errors = [0.0] * STEPS
        self._count = 0

    def look(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> None:
        """Take some groups."""
        from importer.codecs.uqff import hqq_groups  # noqa: PLC0415 - it imports numpy

        values, _ = self._asked.values(arrays, shape, elements, runtime)
        kernel = runtime.kernel(HqqKernel(self._asked.bits))
        errors = hqq_groups.errors_of(values, self._asked.bits, STEPS, kernel)
        sums = errors.sum(axis=1).tolist()
        self._errors = [a + b for a, b in zip(self._errors, sums, strict=True)]
        self._count += len(elements)

    def transcoder(self) -> ToHqq:
        """Return what converts in so many steps."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        best = np.float32(_LARGEST)
        for step, total in enumerate(self._errors, 1):
            error = np.float32(total / max(self._count, 1))
            if not error < best:
                return replace(self._asked, steps=step)
            best = error
        return replace(self._asked, steps=STEPS)


@dataclass(frozen=True, slots=True)
class HqqKernel:
    """The kernel that searches zero points for codes of some bits, and quantizes."""

    bits: int

    @property
    def effort(self) -> int:
        """How many times as long as a cast numpy takes: 700 ns for a weight."""
        return 32

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        return importlib.import_module("importer.codecs.kernels.hqq")

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some groups.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs.uqff import hqq_groups  # noqa: PLC0415 - it imports numpy

        hqq_groups.check(kernel, self.bits, GROUP)


def _row(row: int, width: int, start: int, stop: int) -> range:
    return range(row * width + start, row * width + stop)


def _columns(row: int, shape: Shape, elements: range) -> range:
    """Return the elements, in row-major order, that some groups have in a row."""
    width = math.prod(shape) // GROUP
    return _row(row, width, elements.start // GROUP, elements.stop // GROUP)
