"""Weights that bitsandbytes quantized: 4 bits with a code book, or int8 by rows.

Facts: docs/formats/gptq-awq-bnb.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from importer.codecs.base import KernelSpec, Operation, Runtime, Shape, Span
from store.fs import Buffer

CODES: Final = 16
"""Entries of the code book of 4 bits."""
NESTED_CODES: Final = 256

_UNIT: Final = 1 << 21
"""Values of int8 that are decoded together, if a row is not longer."""


class Nested(NamedTuple):
    """Largest magnitudes that are quantized themselves, to bytes with a code book.

    Attributes:
        block_size: magnitudes that share a scale.
        offset: added to each.
    """

    block_size: int
    offset: float


@dataclass(frozen=True, slots=True)
class Bnb4:
    """Reads `code book[code] * largest magnitude of its block`, computed in F32.

    Blocks run over all elements in row-major order. The arrays are weight, absmax, quant_map,
    the state, which was read before, and if `nested` nested_absmax and nested_quant_map.

    Attributes:
        type_name: `nf4` or `fp4`.
        value_dtype: that the library rounds values to; the state tells it.
        state_nbytes: of the state.
    """

    type_name: str
    block_size: int
    value_dtype: str
    state_nbytes: int
    nested: Nested | None = None

    def __str__(self) -> str:
        nested = " nested" if self.nested is not None else ""
        return f"{self.type_name}/{self.block_size}{nested}"

    def unit(self, shape: Shape) -> int:
        """Return the elements of whole blocks, of magnitudes, too, or all."""
        size = math.lcm(self.block_size, 2)
        if self.nested is not None:
            size = math.lcm(self.block_size * self.nested.block_size, 2)
        return max(min(size, math.prod(shape)), 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:  # noqa: ARG002
        """Return the bytes of the codes, their magnitudes, and code books and state whole."""
        codes = _span(elements.start // 2, -(-elements.stop // 2))
        blocks = range(elements.start // self.block_size, -(-elements.stop // self.block_size))
        books = (Span(0, 4 * CODES), Span(0, self.state_nbytes))
        if self.nested is None:
            return (codes, _span(4 * blocks.start, 4 * blocks.stop), *books)
        size = self.nested.block_size
        scales = _span(4 * (blocks.start // size), 4 * -(-blocks.stop // size))
        return (
            codes,
            _span(blocks.start, blocks.stop),
            *books,
            scales,
            Span(0, 4 * NESTED_CODES),
        )

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,  # noqa: ARG002 - the contract
        elements: range,
        runtime: Runtime,
    ) -> Buffer:
        """Return the values of whole blocks."""
        from importer.codecs.bitsandbytes import values as bnb_values  # noqa: PLC0415 - it imports numpy

        kernel = runtime.kernel(Bnb4Kernel(self.value_dtype))
        return bnb_values.decode(arrays, len(elements), self, kernel)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return the kernel that decodes; nothing is encoded."""
        return (Bnb4Kernel(self.value_dtype),)


@dataclass(frozen=True, slots=True)
class Bnb8:
    """Reads `code * largest magnitude of its row / 127`, as the library rounds it, in F32.

    The arrays are weight and SCB, and if `has_format` weight_format, which was read before.
    """

    has_format: bool = False

    def __str__(self) -> str:
        return "bnb int8"

    @property
    def value_dtype(self) -> str:
        """F32, as `int8_vectorwise_dequant` returns."""
        return "F32"

    def unit(self, shape: Shape) -> int:
        """Return the elements of a row."""
        return max(shape[-1], 1)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return codes, magnitudes of rows, and the byte of the format."""
        columns = max(shape[-1], 1)
        codes = _span(elements.start, elements.stop)
        rows = _span(4 * (elements.start // columns), 4 * (elements.stop // columns))
        return (codes, rows, Span(0, 1)) if self.has_format else (codes, rows)

    def decode(
        self,
        arrays: Sequence[Buffer],
        shape: Shape,
        elements: range,  # noqa: ARG002 - the contract
        runtime: Runtime,  # noqa: ARG002
    ) -> Buffer:
        """Return the values of whole rows."""
        from importer.codecs.bitsandbytes import values as bnb_values  # noqa: PLC0415 - it imports numpy

        return bnb_values.decode_rows(arrays, shape[-1])

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none: numpy decodes 8 bits quickly enough."""
        return ()


@dataclass(frozen=True, slots=True)
class Bnb4Kernel:
    """The kernel that decodes 4 bits.

    Attributes:
        dtype: of the values.
    """

    dtype: str

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        from importer.codecs.kernels import bitsandbytes  # noqa: PLC0415 - it imports numpy

        return bitsandbytes

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some blocks.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs.bitsandbytes import values as bnb_values  # noqa: PLC0415 - it imports numpy

        bnb_values.check(kernel, self.dtype)


def _span(begin: int, end: int) -> Span:
    return Span(begin, end - begin)
