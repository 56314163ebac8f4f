"""Every codec keeps what it promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs import Part, Plain, codec_for
from importer.quant import QUANT_TYPES
from store.errors import UnsupportedError
from tests.importer.codecs import laws

each_codec = pytest.mark.parametrize(
    "case", laws.CODECS, ids=lambda case: f"{type(case.codec).__name__}-{case.dtype}"
)


@each_codec
@given(data=st.data())
def test_encode_gives_what_parts_promised(case, data):
    laws.check_parts(case, *data.draw(laws.tensors(case)))


@each_codec
@given(data=st.data())
def test_rows_are_independent(case, data):
    laws.check_rows_are_independent(case, *data.draw(laws.tensors(case)), data.draw)


@each_codec
def test_a_codec_is_a_value(case):
    laws.check_is_a_value(case)


def test_plain_gives_the_very_bytes_back():
    rows = memoryview(bytearray(b"12345678"))

    assert Plain("F32").parts((2,)) == (Part("", "F32", (2,)),)
    assert Plain("F32").encode(rows) == (rows,)


@pytest.mark.parametrize("quant", QUANT_TYPES.values(), ids=QUANT_TYPES)
def test_a_type_without_a_codec_is_unsupported(quant):
    with pytest.raises(UnsupportedError) as caught:
        codec_for(quant, "BF16")
    assert quant.name in str(caught.value)
