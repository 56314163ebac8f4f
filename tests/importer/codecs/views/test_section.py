"""Any elements of an array are read, also those that begin in the middle of a byte."""

from __future__ import annotations

import itertools

import pytest

from importer.codecs.plain import Plain
from importer.codecs.runtime import NUMPY
from importer.codecs.views.section import read_section, section_span
from store.tensorfile import ITEM_BITS

DATA = bytes(range(17, 257, 24))


@pytest.mark.parametrize("dtype", ["F4", "U8", "F16", "F32"])
def test_any_elements_are_those_of_the_whole(dtype):
    bits = ITEM_BITS[dtype]
    count = len(DATA) * 8 // bits
    whole = int.from_bytes(DATA, "little")

    for first, end in itertools.combinations(range(count + 1), 2):
        some = range(first, end)
        span = section_span(Plain(dtype), (count,), some)
        data = DATA[span.begin : span.begin + span.nbytes]
        found = read_section(Plain(dtype), data, (count,), some, NUMPY)
        kept = (1 << len(some) * bits) - 1
        assert len(found) == -(-len(some) * bits // 8)
        assert int.from_bytes(found, "little") & kept == whole >> first * bits & kept
