"""Casts between float types: every value rounded to the nearest, ties to even."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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

_HELD_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "BF16": ("F32",),
    "F16": ("F32",),
    "F8_E4M3": ("BF16", "F16", "F32"),
    "F8_E5M2": ("BF16", "F16", "F32"),
}
"""For each dtype those that hold every value of it."""
_COMPILED: Final = frozenset({("BF16", "F16"), ("F32", "F16"), ("F32", "BF16")})
"""Casts that a kernel does in a twentieth of the time that numpy takes."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Converts floats to another float type.

    Attributes:
        dtype: of the values that `encode` takes.
        wanted: the dtype that the values become.
    """

    dtype: str
    wanted: str

    @property
    def is_lossless(self) -> bool:
        """Whether the type that the values become holds all that they can be."""
        return self.wanted in _HELD_BY.get(self.dtype, ()) or self.dtype == self.wanted

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part of another dtype."""
        return (Part(WEIGHT, self.wanted, shape),)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1: elements are independent."""
        return 1

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:
        """Round values, and count the finite ones that become infinite."""
        if self.dtype == self.wanted:
            return Encoded((values,))  # they were decoded, and need no rounding
        from importer.codecs.reference.cast import cast  # noqa: PLC0415 - it imports numpy
        from importer.codecs.reference.floats import read  # noqa: PLC0415 - likewise

        kernel = runtime.kernel(CastKernel(self.dtype, self.wanted))
        if kernel is not None:
            made = kernel.narrowed(read(values, self.dtype), self.dtype, self.wanted)
            if made is not None:
                return Encoded((made.view("u1").data,))
        bits, overflows = cast(values, self.dtype, self.wanted)
        return Encoded((bits.view("u1").data,), overflows)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that rounds to 16 bits, where there is one."""
        has_one = (self.dtype, self.wanted) in _COMPILED and operation is Operation.ENCODE
        return (CastKernel(self.dtype, self.wanted),) if has_one else ()


@dataclass(frozen=True, slots=True)
class CastKernel:
    """A kernel that rounds floats of a dtype to another of 16 bits."""

    dtype: str
    wanted: str

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of all casts; code is found at the first call."""
        return importlib.import_module("importer.codecs.kernels.cast")

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on every exponent, and beside ties.

        Raises:
            ArithmeticError: they differ.
        """
        import numpy as np  # noqa: PLC0415 - 60 ms

        from importer.codecs.reference.floats import (  # noqa: PLC0415
            INFINITY,
            STORED,
            narrow,
            widen,
        )

        upper = np.arange(1 << 16, dtype=np.uint32)
        wide = (upper << 16 | upper * 0x9E37 & 0x3000 | upper & 1).astype(np.uint32)
        bits = wide if self.dtype == "F32" else upper.astype(STORED[self.dtype])
        expected = narrow(widen(bits, self.dtype), self.wanted)
        is_finite = expected & 0x7FFF < INFINITY[self.wanted]
        found = kernel.narrowed(bits[is_finite], self.dtype, self.wanted)
        if found is None or (found != expected[is_finite]).any():
            raise ArithmeticError(f"casts from {self.dtype} to {self.wanted}")


@dataclass(frozen=True, slots=True)
class Rounded:
    """Reads what another decoder reads, rounded to another float type.

    Attributes:
        decoder: of values that `Cast` takes.
        wanted: the dtype that they are rounded to.
    """

    decoder: Decoder
    wanted: str

    def __str__(self) -> str:
        return str(self.decoder)

    @property
    def value_dtype(self) -> str:
        """The dtype that values are rounded to."""
        return self.wanted

    @property
    def dtype(self) -> str:
        """The same: of the values that it is compared with."""
        return self.wanted

    def unit(self, shape: Shape) -> int:
        """Return the decoder's unit."""
        return self.decoder.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the decoder needs."""
        return self.decoder.spans(shape, elements)

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return values, rounded; one too large becomes infinite."""
        values = self.decoder.decode(arrays, shape, elements, runtime)
        (part,) = Cast(self.decoder.value_dtype, self.wanted).encode(values, runtime).parts
        return part

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the decoder's, and the one that rounds what it decodes."""
        own = self.decoder.kernels(operation)
        if operation is not Operation.DECODE:
            return own
        cast = Cast(self.decoder.value_dtype, self.wanted)
        return (*own, *cast.kernels(Operation.ENCODE))
