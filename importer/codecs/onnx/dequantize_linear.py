"""Weights that ONNX's DequantizeLinear reads: codes, scales and zero points along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.base import Decoder, KernelSpec, Operation, Runtime, Shape, Span
from importer.codecs.views.section import read_section, section_span
from store.fs import Buffer

if TYPE_CHECKING:  # a plan needs no numpy
    from importer.codecs.reference.dequantize_linear import Numbers

_ROW: Final = 1 << 20
"""Elements that are decoded together, if all along the axis are not more than that."""
LARGEST: Final = 1 << 22
"""Elements of a unit, and scales that are read for it."""


class _Sides(NamedTuple):
    """A shape around an axis: what comes before it, its length, what comes after it."""

    outer: int
    length: int
    inner: int

    @property
    def row(self) -> int:
        return self.length * self.inner


@dataclass(frozen=True, slots=True)
class DequantizeLinear:
    """Reads codes, scales and zero points, each through the decoder of its array.

    Attributes:
        codes: of integers or of floats of 4 or 8 bits.
        kind: what people call the codes, such as `int8`.
        scale: of F32, F16 or BF16, which the values are, too, unless it is said otherwise.
        zero: of codes like `codes`, as many as scales; None for 0.
        axis: that scales are along; None for one scale.
        block: elements along the axis that have a scale, or 0 for 1.
        output: the dtype of the values, or empty.
    """

    codes: Decoder
    kind: str
    scale: Decoder
    zero: Decoder | None = None
    axis: int | None = None
    block: int = 0
    output: str = ""

    def __str__(self) -> str:
        return f"QDQ {self.kind}/{self.block}" if self.block else f"QDQ {self.kind}"

    @property
    def value_dtype(self) -> str:
        """The dtype that is asked for, or that of the scales."""
        return self.output or self.scale.value_dtype

    def scale_shape(self, shape: Shape) -> Shape:
        """Return the shape of scales and zero points of a tensor."""
        if self.axis is None:
            return ()
        if not self.block:
            return (shape[self.axis],)
        blocks = -(-shape[self.axis] // self.block)
        return (*shape[: self.axis], blocks, *shape[self.axis + 1 :])

    def is_bounded(self, shape: Shape) -> bool:
        """Return whether a unit and its scales are small enough to be read at once."""
        scales = math.prod(self.scale_shape(shape)) if self.axis is not None else 1
        return self.unit(shape) <= LARGEST and (bool(self.block) or scales <= LARGEST)

    def unit(self, shape: Shape) -> int:
        """Return the elements of what has whole scales, but at least two for packed codes."""
        if self.axis is None:
            return self.codes.unit(shape)
        sides = self._sides(shape)
        whole = sides.row if sides.row <= _ROW else sides.inner
        return max(math.lcm(whole, 2 if self.codes.value_dtype == "F4" else 1), 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return codes, scales, and zero points if there are any."""
        codes = section_span(self.codes, shape, elements)
        scale_shape, some = self.scale_shape(shape), self._scales(shape, elements)
        return (codes, *(section_span(one, scale_shape, some) for one in self._aside))

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return values, rounded once."""
        from importer.codecs.reference import dequantize_linear as reference  # noqa: PLC0415

        if not len(elements):
            return b""
        data = read_section(self.codes, arrays[0], shape, elements, runtime)
        codes = reference.codes(data, self.codes.value_dtype)[: len(elements)]
        scale_shape, some = self.scale_shape(shape), self._scales(shape, elements)
        aside = [
            read_section(decoder, array, scale_shape, some, runtime)
            for decoder, array in zip(self._aside, arrays[1:], strict=True)
        ]
        scale: Numbers = reference.scales(aside[0], self.scale.value_dtype)
        zero = None
        if self.zero:
            zero = reference.codes(aside[1], self.zero.value_dtype)[: len(some)]
        if self.axis is not None:
            codes, (scale, zero) = self._aligned(codes, (scale, zero), shape, elements)
        values = reference.dequantize(codes, zero, scale, self.value_dtype)
        return values.reshape(-1).view("u1").data

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    @property
    def _aside(self) -> tuple[Decoder, ...]:
        return (self.scale,) if self.zero is None else (self.scale, self.zero)

    def _sides(self, shape: Shape) -> _Sides:
        axis = self.axis or 0
        return _Sides(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))

    def _scales(self, shape: Shape, elements: range) -> range:
        """Return which scales some elements need."""
        if self.axis is None:
            return range(1)
        if not len(elements):
            return range(0)
        sides = self._sides(shape)
        first, last = elements.start // sides.inner, (elements.stop - 1) // sides.inner
        if not self.block:
            is_part = first // sides.length == last // sides.length
            start, end = first % sides.length, last % sides.length
            return range(start, end + 1) if is_part else range(sides.length)
        return range(
            self._block_of(first, sides) * sides.inner,
            (self._block_of(last, sides) + 1) * sides.inner,
        )

    def _block_of(self, position: int, sides: _Sides) -> int:
        blocks = -(-sides.length // self.block)
        return position // sides.length * blocks + position % sides.length // self.block

    def _aligned(
        self,
        codes: Numbers,
        aside: tuple[Numbers, Numbers | None],
        shape: Shape,
        elements: range,
    ) -> tuple[Numbers, tuple[Numbers, Numbers | None]]:
        """Return codes, scales and zero points in shapes that broadcast."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        sides, some = self._sides(shape), self._scales(shape, elements)
        if len(elements) % sides.row == 0 and elements.start % sides.row == 0:
            codes = codes.reshape(-1, sides.length, sides.inner)

            def spread(one: Numbers) -> Numbers:
                if not self.block:
                    return one.reshape(1, -1, 1)
                blocks = one.reshape(len(codes), -1, sides.inner)
                return np.repeat(blocks, self.block, axis=1)[:, : sides.length]

        else:
            codes = codes.reshape(-1, sides.inner)
            first = elements.start // sides.inner
            positions = np.arange(first, first + len(codes))
            if self.block:
                blocks = -(-sides.length // self.block)
                rows = positions // sides.length * blocks
                places = rows + positions % sides.length // self.block
                places -= some.start // sides.inner
            else:
                places = positions % sides.length - some.start

            def spread(one: Numbers) -> Numbers:
                return np.take(
                    one.reshape(-1, sides.inner if self.block else 1), places, axis=0
                )

        scale, zero = aside
        return codes, (spread(scale), None if zero is None else spread(zero))
