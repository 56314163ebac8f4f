"""How far the values of two tensors are apart: tile by tile, however they are stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.base import KernelSpec, Operation, Runtime, Span
from importer.codecs.spec import VALUE_DTYPES
from importer.engine.chunks import Read
from importer.engine.reader import ChunkReader
from importer.engine.values import read_values
from importer.sources.tensor import SourceTensor
from store.fs import Buffer
from store.tensorfile import elements

if TYPE_CHECKING:
    from importer.codecs.metrics import Deviation

_TILE: Final = 1 << 19
"""Elements at a time: 2 MB of values in F32, for each of two sides."""
_BYTES: Final = 1 << 20
_LANES: Final = 64
"""Elements that the sums take side by side; tiles of a multiple keep their order."""

Tell = Callable[[int], None]
"""Called with the number of bytes that were just read of both sides."""


class Distance(NamedTuple):
    """What the values of two tensors of one shape have in common.

    Attributes:
        is_same: whether all are equal, to the bit where both are stored alike.
        deviation: of the second from the first; None where values are not numbers to measure
            (integers, NaNs, infinities), or where all are the same.
    """

    is_same: bool
    deviation: Deviation | None = None


SAME: Final = Distance(is_same=True)


def is_alike(a: SourceTensor, b: SourceTensor) -> bool:
    """Return whether two tensors are stored in the same way, so that bytes can be compared."""
    forms = [[(one.dtype, one.shape, one.nbytes) for one in side.arrays] for side in (a, b)]
    return a.shape == b.shape and a.decoder == b.decoder and forms[0] == forms[1]


def is_identical(a: SourceTensor, b: SourceTensor) -> bool:
    """Return whether two tensors are the same bytes of the same files, which need no look."""
    return is_alike(a, b) and all(
        (one.file.location, one.file.identity, one.offset)
        == (other.file.location, other.file.identity, other.offset)
        for one, other in zip(a.arrays, b.arrays, strict=True)
    )


def kernels(a: SourceTensor, b: SourceTensor) -> Iterator[KernelSpec]:
    """Yield the kernels that make `distance` fast."""
    from importer.codecs.measure import SumKernel  # noqa: PLC0415 - it imports numpy

    if is_measured(a) and is_measured(b):
        yield SumKernel(_common(a, b))
        for side in (a, b):
            yield from side.decoder.kernels(Operation.DECODE)


def is_measured(tensor: SourceTensor) -> bool:
    """Return whether the values of a tensor are real numbers."""
    return tensor.decoder.value_dtype in VALUE_DTYPES


def distance(a: SourceTensor, b: SourceTensor, runtime: Runtime, tell: Tell) -> Distance:
    """Compare the values of two tensors of one shape.

    What is stored alike is compared by its bytes, and decoded only if these differ. F64 is
    measured as F32.

    Raises:
        InputError: a file is no longer what was scanned.
        StorageError: the device failed.
    """
    with ChunkReader() as first, ChunkReader() as second:
        ours, theirs = _Side(a, first), _Side(b, second)
        if is_alike(a, b) and _has_same_bytes(ours, theirs, tell):
            return SAME
        if is_measured(a) and is_measured(b):
            return _measured(ours, theirs, runtime, tell)
        return Distance(is_same=False)


class _Side(NamedTuple):
    """A tensor and what reads its file."""

    tensor: SourceTensor
    reader: ChunkReader

    def values(self, tile: range, runtime: Runtime, tell: Tell) -> tuple[Buffer, str]:
        """Return the values of some elements, and their dtype."""
        values = read_values(self.tensor, self.reader, tile, runtime, tell)
        return values, self.tensor.decoder.value_dtype


def _has_same_bytes(a: _Side, b: _Side, tell: Tell) -> bool:
    ours, theirs = memoryview(bytearray(_BYTES)), memoryview(bytearray(_BYTES))
    for one, other in zip(a.tensor.arrays, b.tensor.arrays, strict=True):
        for start in range(0, one.nbytes, _BYTES):
            size = min(_BYTES, one.nbytes - start)
            span = Span(start, size)
            a.reader.fill(Read(one.file, one.offset, span), ours[:size])
            b.reader.fill(Read(other.file, other.offset, span), theirs[:size])
            tell(2 * size)
            # As bytes, which compare at memory speed; views compare item by item.
            if bytes(ours[:size]) != bytes(theirs[:size]):
                return False
    return True


def _measured(a: _Side, b: _Side, runtime: Runtime, tell: Tell) -> Distance:
    from importer.codecs.measure import Total  # noqa: PLC0415 - it imports numpy

    ours, theirs = a.tensor, b.tensor
    total = Total(_common(ours, theirs), runtime)
    unit = math.lcm(*(side.decoder.unit(ours.shape) for side in (ours, theirs)), _LANES)
    step, count = max(1, _TILE // unit) * unit, elements(ours.shape)
    for start in range(0, count, step):
        tile = range(start, min(start + step, count))
        total.add(a.values(tile, runtime, tell), b.values(tile, runtime, tell))
    found = total.result()
    if not found.is_finite:
        return Distance(is_same=False)
    return Distance(not found.sum_err2 and not is_alike(ours, theirs), found)


def _common(a: SourceTensor, b: SourceTensor) -> str:
    """Return the dtype that both are summed in."""
    ours, theirs = (VALUE_DTYPES[one.decoder.value_dtype] for one in (a, b))
    return ours if ours == theirs else "F32"
