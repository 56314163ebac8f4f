"""Downcasts: every value rounded to the nearest, ties to even."""

from __future__ import annotations

from dataclasses import dataclass

from importer.codecs.base import Encoded, KernelSpec, Operation, Part, Runtime, Shape
from store.fs import Buffer
from store.tensorblob import WEIGHT


@dataclass(frozen=True, slots=True)
class Cast:
    """Converts floats to BF16 or F16.

    Attributes:
        dtype: of the values that `encode` takes.
        wanted: the dtype that the values become.
    """

    dtype: str
    wanted: str

    @property
    def is_lossless(self) -> bool:
        """Return False: rounding loses digits."""
        return False

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part of another dtype."""
        return (Part(WEIGHT, self.wanted, shape),)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - the contract
        """Return 1: elements are independent."""
        return 1

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:  # noqa: ARG002
        """Round values, and count the finite ones that become infinite."""
        if self.dtype == self.wanted:
            return Encoded((values,))  # they were decoded, and need no rounding
        from importer.codecs.reference.cast import cast  # noqa: PLC0415 - it imports numpy

        bits, overflows = cast(values, self.dtype, self.wanted)
        return Encoded((bits.view("u1").data,), overflows)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:  # noqa: ARG002
        """Return none."""
        return ()
