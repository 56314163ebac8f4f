"""Every codec keeps what it promises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.base import Part
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for
from importer.codecs.spec import QUANT_TYPES
from store.errors import UnsupportedError
from tests.importer.codecs import laws

each_codec = pytest.mark.parametrize("case", laws.CODECS, ids=laws.case_id)
few = settings(max_examples=settings.default.max_examples // 5)


@each_codec
@few
@given(data=st.data())
def test_encode_gives_what_parts_promised(case, data):
    laws.check_parts(case, *data.draw(laws.tensors(case)))


@each_codec
@few
@given(data=st.data())
def test_rows_are_independent(case, data):
    laws.check_rows_are_independent(case, *data.draw(laws.tensors(case)), data.draw)


@each_codec
@few
@given(data=st.data())
def test_decode_gives_as_many_values(case, data):
    laws.check_decode(case, *data.draw(laws.tensors(case)), data.draw)


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("case", laws.KERNELS, ids=laws.case_id)
@few
@given(data=st.data())
def test_rows_are_independent_in_kernels(case, data):
    laws.check_rows_are_independent(case, *data.draw(laws.tensors(case)), data.draw)


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("case", laws.KERNELS, ids=laws.case_id)
@few
@given(data=st.data())
def test_kernels_decode_in_pieces(case, data):
    laws.check_decode(case, *data.draw(laws.tensors(case)), data.draw)


@each_codec
def test_a_codec_is_a_value(case):
    laws.check_is_a_value(case)


def test_plain_gives_the_very_bytes_back():
    rows = memoryview(bytearray(b"12345678"))

    assert Plain("F32").parts((2,)) == (Part("", "F32", (2,)),)
    assert Plain("F32").encode(rows).parts == (rows,)
    assert Plain("F32").decode((rows,)) == rows


@pytest.mark.parametrize("dtype", ["BF16", "I64", "F8_E4M3", "BOOL"])
def test_what_is_not_quantized_is_plain(dtype):
    assert codec_for(None, dtype) == Plain(dtype)


@pytest.mark.parametrize("quant", QUANT_TYPES.values(), ids=QUANT_TYPES)
def test_integers_cannot_be_quantized(quant):
    with pytest.raises(UnsupportedError) as caught:
        codec_for(quant, "I64")
    assert quant.name in str(caught.value)
    assert "I64" in str(caught.value)
