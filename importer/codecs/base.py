"""The contracts of decoders, encoders and transcoders, and the laws that they keep.

A tensor's values are numbered in row-major order, and every range below counts these
elements. Three laws hold for every codec, and tests/importer/codecs/laws.py checks them:

1. `encode` and `convert` return what `parts` promised before a weight was read.
2. Units are independent: however a tensor is cut at multiples of `unit`, the pieces joined
   are the same bytes. Chunks, threads and bounded memory rest on this, and so does the
   promise that the same source gives the same digests.
3. The result is what the format's reference implementation makes of the same values, bit for
   bit.

The bytes of every part grow in proportion to the elements: a range from a to b of a tensor of
n elements is at `nbytes * a // n` to `nbytes * b // n` of each part. Of a number for the whole
tensor the last range has the last byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum, unique
from typing import Any, Final, NamedTuple, Protocol

from importer.codecs.spec import QuantSpec
from store.fs import Buffer
from store.tensorfile import data_bytes

REVISION: Final = 1
"""The revision of the codecs: raised when any of them makes other bytes of the same input."""

Shape = tuple[int, ...]
"""The shape of a tensor in elements, outermost dimension first."""


@unique
class Operation(StrEnum):
    """What a kernel does."""

    ENCODE = "encode"
    DECODE = "decode"


class Span(NamedTuple):
    """Bytes of one stored array, in `runs` of one length that begin `stride` bytes apart.

    Where a format packs along columns, the values of some rows are a few bytes of every row
    of the stored array: `Span(64, 16384, runs=512, stride=4096)` is 32 bytes of each of 512.

    Attributes:
        begin: of the first run, in bytes from the beginning of the array.
        nbytes: of all runs together; they are handed over without gaps.
    """

    begin: int
    nbytes: int
    runs: int = 1
    stride: int = 0

    @property
    def run(self) -> int:
        """Bytes of one run."""
        return self.nbytes // max(self.runs, 1)


class Part(NamedTuple):
    """One array that a tensor becomes.

    Attributes:
        suffix: put after the tensor's name; empty for the weights themselves.
        shape: in elements of `dtype`.
    """

    suffix: str
    dtype: str
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return data_bytes(self.dtype, self.shape)


class Encoded(NamedTuple):
    """What some elements became.

    Attributes:
        parts: a piece of each part, as bytes.
        nonfinite: NaNs and infinities among the values, which a type that scales by the
            largest value of a group cannot hold; 0 from a codec that does not look.
    """

    parts: tuple[Buffer, ...]
    nonfinite: int = 0


class KernelSpec(Protocol):
    """Compiled code that may stand in for numpy: a frozen value, equal where the code is.

    Example: `GroupKernel(Operation.ENCODE, "int4", "BF16")`. One may have an `effort`: how
    many times as long numpy takes for a byte as it usually does.
    """

    def load(self) -> Any:  # noqa: ANN401 - each codec knows its own kernels
        """Return the kernel; its code is read from disk, or compiled, at the first call."""
        ...

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on this machine.

        Raises:
            ArithmeticError: they differ.
        """
        ...

    def __hash__(self) -> int: ...


class Runtime(Protocol):
    """The kernels that workers compute with; `importer.codecs.runtime` implements it."""

    def kernel(self, spec: KernelSpec) -> Any | None:  # noqa: ANN401
        """Return the kernel that was prepared for `spec`, or None where numpy does the work."""
        ...


class Decoder(Protocol):
    """How values are stored: a frozen value.

    A source tensor is one or more stored arrays and the decoder that reads them:
    `Plain("BF16")` one array, a quantized one its packed codes, scales and zero points.
    `str()` of a decoder of packed values is the type that people are shown, such as
    `int4/64` or `Q4_K`.
    """

    @property
    def value_dtype(self) -> str:
        """The dtype of the values that `decode` returns."""
        ...

    def unit(self, shape: Shape) -> int:
        """Return the number of elements that can be decoded alone; at least 1."""
        ...

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of each stored array that a range of elements needs.

        Args:
            shape: of the tensor, logical.
            elements: begins and ends at a multiple of `unit`, or at the end of the tensor.
        """
        ...

    def decode(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Buffer:
        """Return the values of a range of elements, as bytes of `value_dtype`.

        Args:
            arrays: the bytes of `spans(shape, elements)`; the result may be a view of one, so
                it is used before the buffers are filled again.
        """
        ...

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernels that make an operation fast; none where numpy is enough."""
        ...

    def __hash__(self) -> int: ...


class Coded(Decoder, Protocol):
    """A decoder of codes that a type of the store may hold, too, with the same values.

    Its `value_dtype` is F32, in which codes are multiplied by scales.
    """

    def holds(self, shape: Shape) -> QuantSpec | None:
        """Return the type of the store that holds codes and values exactly, or None."""
        ...

    def repack(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return whole groups as the parts of the type that `holds` returns, for F32 values.

        Args:
            arrays: as for `decode`.
            elements: begins and ends at a group, too.
        """
        ...


class Blocks(Decoder, Protocol):
    """A decoder of one array of blocks, which the store keeps under the decoder's name.

    `str()` of it is what the blob's `quant_type` says.
    """

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the shape of the array, in bytes: `[..., rows, bytes of a row]`.

        Args:
            shape: of the tensor, logical.
        """
        ...

    def kept(self, blocks: Buffer) -> Buffer:
        """Return whole blocks as the store keeps them."""
        ...


class Encoder(Protocol):
    """What values become: a frozen value that knows what it will make before it makes it."""

    @property
    def dtype(self) -> str:
        """The dtype of the values that `encode` takes."""
        ...

    @property
    def is_lossless(self) -> bool:
        """Whether every value can be restored exactly."""
        ...

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return what a tensor of `shape` becomes, in the order of the file."""
        ...

    def unit(self, shape: Shape) -> int:
        """Return the number of elements that can be encoded alone; at least 1."""
        ...

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:
        """Encode a whole number of units, given as bytes of `dtype`.

        The parts may be views of `values`: they are used before its next change.
        """
        ...

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernels that make an operation fast; none where numpy is enough."""
        ...

    def __hash__(self) -> int: ...


class Codec(Encoder, Decoder, Protocol):
    """A quantization type of the store: what values become, and how they are stored then."""

    @property
    def spec(self) -> QuantSpec:
        """The facts of the type."""
        ...


class Transcoder(Protocol):
    """Converts stored arrays to the parts of a blob: the only thing that the engine runs.

    `Copy` moves bytes, `Recode(decoder, encoder)` goes through values, and a repack moves
    codes from one layout into another.

    Example:
        >>> copy = Copy("BF16")
        >>> copy.parts((2, 3)), copy.unit((2, 3)), copy.spans((2, 3), range(2, 4))
        ((Part(suffix='', dtype='BF16', shape=(2, 3)),), 1, (Span(begin=4, nbytes=4, ...),))
    """

    @property
    def is_lossless(self) -> bool:
        """Whether the values of the source can be restored exactly."""
        ...

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return what a tensor of `shape` becomes, in the order of the file."""
        ...

    def unit(self, shape: Shape) -> int:
        """Return the number of elements that can be converted alone; at least 1."""
        ...

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return the bytes of each stored array that a range of elements needs."""
        ...

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Convert a range of elements; the parts may be views of `arrays`."""
        ...

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the kernels that make `convert` fast; none where numpy is enough."""
        ...

    def __hash__(self) -> int: ...
