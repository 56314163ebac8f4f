"""Any elements of an array, also where its decoder reads larger units only."""

from __future__ import annotations

import math

from importer.codecs.base import Decoder, Runtime, Shape, Span
from store.fs import Buffer
from store.tensorfile import ITEM_BITS

_BYTE = 8


def section_span(decoder: Decoder, shape: Shape, elements: range) -> Span:
    """Return the bytes of the units that some elements are in.

    Args:
        decoder: of one array.
    """
    (span,) = decoder.spans(shape, _enclosing(decoder, shape, elements))
    return span


def read_section(
    decoder: Decoder, data: Buffer, shape: Shape, elements: range, runtime: Runtime
) -> memoryview:
    """Return the values of some elements, as bytes; of 4 bits the last byte may be half empty.

    Args:
        data: the bytes of `section_span`.
    """
    around = _enclosing(decoder, shape, elements)
    values = memoryview(decoder.decode([data], shape, around, runtime)).cast("B")
    bits = ITEM_BITS[decoder.value_dtype]
    begin, some = (elements.start - around.start) * bits, len(elements) * bits
    end = -(-(begin + some) // _BYTE)
    if begin % _BYTE == 0:
        return values[begin // _BYTE : end]
    # The first value is the high half of a byte.
    number = int.from_bytes(values[begin // _BYTE : end], "little") >> begin % _BYTE
    return memoryview((number & ((1 << some) - 1)).to_bytes(-(-some // _BYTE), "little"))


def _enclosing(decoder: Decoder, shape: Shape, elements: range) -> range:
    unit = decoder.unit(shape)
    end = min(-(-elements.stop // unit) * unit, math.prod(shape))
    return range(elements.start // unit * unit, end)
