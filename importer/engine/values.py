"""The values of tensors as they are stored: a range of elements, or a sample of many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.base import Runtime
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import VALUE_DTYPES
from importer.engine.chunks import Read
from importer.engine.reader import ChunkReader
from importer.sources.tensor import SourceTensor
from store.fs import Buffer
from store.tensorfile import elements

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_VALUES: Final = 1 << 20
"""Values of a sample."""
_TENSORS: Final = 256
"""Tensors of a sample, at most: each is a file to open."""
_PLACES: Final = 16
"""Places in each tensor."""
_BINS: Final = 61
_SPAN: Final = 4
"""Standard deviations from zero to the ends of a histogram."""


class Sample(NamedTuple):
    """What values of some tensors are like; see `sample`.

    Attributes:
        tensors: that there are.
        elements: of all of them.
        sampled: values that were looked at.
        edge: the histogram goes from -edge to edge; 0 where there is nothing to count.
        counts: of values in each of its bins.
        beyond: values that are farther from zero.
        zeros: values that are zero.
        nonfinite: values that are NaN or infinite, and in no other number here.
        deviation: standard deviation.
        smallest: finite value.
        largest: finite value.
    """

    tensors: int
    elements: int
    sampled: int
    edge: float
    counts: tuple[int, ...]
    beyond: int
    zeros: int
    nonfinite: int
    deviation: float
    smallest: float
    largest: float


def read_values(
    tensor: SourceTensor,
    reader: ChunkReader,
    tile: range,
    runtime: Runtime,
    tell: Callable[[int], None] = lambda _: None,
) -> Buffer:
    """Return a range of a tensor's values, as bytes of its decoder's `value_dtype`.

    Args:
        tensor: whose values are read.
        reader: of one thread.
        tile: begins and ends at multiples of the decoder's unit, or at the end of the tensor.
        runtime: whose kernels decode.
        tell: called with the number of bytes that were read.
    """
    arrays: list[memoryview] = []
    spans = tensor.decoder.spans(tensor.shape, tile)
    for array, span in zip(tensor.arrays, spans, strict=True):
        view = memoryview(bytearray(span.nbytes))
        reader.fill(Read(array.file, array.offset, span), view)
        tell(span.nbytes)
        arrays.append(view)
    return tensor.decoder.decode(arrays, tensor.shape, tile, runtime)


def sample(tensors: Sequence[SourceTensor]) -> Sample | None:
    """Look at about a million values of some tensors, evenly spaced: all of them if so few.

    Which values these are depends on names and shapes alone.

    Returns:
        Of tensors whose values are real numbers; None where there is none.

    Raises:
        InputError: a file is no longer what was scanned.
    """
    import numpy as np  # noqa: PLC0415 - this module is imported where nothing is sampled, too

    real = [one for one in tensors if one.decoder.value_dtype in VALUE_DTYPES]
    real = [one for one in real if elements(one.shape)]
    if not real:
        return None
    step = -(-len(real) // _TENSORS)
    chosen = real[::step]
    most = -(-_VALUES // len(chosen))
    with ChunkReader() as reader:
        found = [_floats(one, reader, tile) for one in chosen for tile in _tiles(one, most)]
    values = np.concatenate(found)
    finite = values[np.isfinite(values)]
    return _counted(
        finite,
        len(real),
        sum(elements(one.shape) for one in real),
        len(values) - len(finite),
    )


def _tiles(tensor: SourceTensor, most: int) -> list[range]:
    count, unit = elements(tensor.shape), tensor.decoder.unit(tensor.shape)
    if count <= most:
        return [range(count)]
    units = -(-count // unit)
    places = min(_PLACES, units)
    width = max(1, most // places // unit)
    starts = [units * place // places * unit for place in range(places)]
    return [range(start, min(start + width * unit, count)) for start in starts]


def _floats(tensor: SourceTensor, reader: ChunkReader, tile: range) -> npt.NDArray[np.float32]:
    from importer.codecs.reference import floats  # noqa: PLC0415 - it imports numpy

    dtype = tensor.decoder.value_dtype
    values = read_values(tensor, reader, tile, NUMPY)
    return floats.widen(floats.read(values, dtype), VALUE_DTYPES[dtype]).reshape(-1)


def _counted(
    values: npt.NDArray[np.float32], tensors: int, count: int, nonfinite: int
) -> Sample:
    import numpy as np  # noqa: PLC0415 - as above

    sampled = len(values) + nonfinite
    if not len(values):
        return Sample(tensors, count, sampled, 0, (), 0, 0, nonfinite, 0, 0, 0)
    deviation = float(values.std(dtype=np.float64))
    # Of few digits, so that sums in another order, on another machine, give the same bins.
    around = math.sqrt(float(np.mean(np.square(values, dtype=np.float64))))
    edge = float(f"{_SPAN * around:.2g}")
    counts: tuple[int, ...] = ()
    if edge:
        bins, _ = np.histogram(values, _BINS, (-edge, edge))
        counts = tuple(bins.tolist())
    return Sample(
        tensors,
        count,
        sampled,
        edge,
        counts,
        int(np.count_nonzero(np.abs(values) > edge)),
        int(np.count_nonzero(values == 0)),
        nonfinite,
        deviation,
        float(values.min()),
        float(values.max()),
    )
