"""Read the values of one tensor twice, and tell what they are like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.base import Operation, Runtime
from importer.codecs.cast import Cast
from importer.codecs.registry import stored_type
from importer.codecs.runtime import prepare
from importer.codecs.transcode import Recode
from importer.engine.chunks import Chunk, cut_source
from importer.engine.reader import ChunkReader
from importer.sources.tensor import SourceTensor
from store.errors import UnsupportedError
from store.tensorfile import elements
from store.text import printable

if TYPE_CHECKING:
    from importer.codecs.statistics import Codes, Histogram, Moments, Values

_CHUNK: Final = 1 << 18
"""Of the arrays: 2 bits become 64 to compute with."""


class Statistics(NamedTuple):
    """What the values of a tensor are like.

    Attributes:
        codes: which it uses, or None where it is not of a quantization type of the store.
    """

    moments: Moments
    histogram: Histogram
    codes: Codes | None


def statistics_of(tensor: SourceTensor) -> Statistics:
    """Return the statistics of a tensor, wherever it is stored.

    A piece of it is in memory at a time. Sums are taken in an order that is fixed.

    Raises:
        InputError: the file changed, or is cut short.
        UnsupportedError: the dtype is not one whose values are known.
    """
    from importer.codecs.statistics import Codes, Histogram, Moments  # noqa: PLC0415 - numpy

    decoder = tensor.decoder
    nbytes = 4 * elements(tensor.shape)
    runtime = prepare(dict.fromkeys(decoder.kernels(Operation.DECODE), nbytes), lambda: None)
    spec = stored_type(decoder)
    moments, codes = Moments(), None if spec is None else Codes.of(spec)
    try:
        for chunk, arrays, values in _pieces(tensor, runtime):
            moments.add(values)
            if codes is not None and chunk.elements:
                codes.add(arrays, values)
    except UnsupportedError as error:
        error.args = (f"`{printable(tensor.name)}`: {error}",)
        raise
    histogram = Histogram.of(moments)
    if moments.count:
        for _, _, values in _pieces(tensor, runtime):
            histogram.add(values)
    return Statistics(moments, histogram, codes)


def _pieces(
    tensor: SourceTensor, runtime: Runtime
) -> Iterator[tuple[Chunk, tuple[memoryview, ...], Values]]:
    from importer.codecs.statistics import values_of  # noqa: PLC0415 - it imports numpy

    dtype = tensor.decoder.value_dtype
    decode = Recode(tensor.decoder, Cast(dtype, dtype))
    extents = [array.extent for array in tensor.arrays]
    buffer = bytearray(_CHUNK)
    with ChunkReader() as reader:
        for chunk in cut_source(decode, tensor.shape, extents, [(0, 0)], _CHUNK):
            if chunk.room > len(buffer):
                buffer = bytearray(chunk.room)
            arrays = reader.read(chunk, memoryview(buffer))
            if chunk.elements:
                (data,) = decode.convert(arrays, chunk.shape, chunk.elements, runtime).parts
                yield chunk, arrays, values_of(data, dtype)
