"""Every encoder, decoder and transcoder keeps what it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs import registry
from importer.codecs.base import Encoded, Part, Span
from importer.codecs.cast import Cast
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for, stored_type, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, Downcast
from importer.codecs.transcode import Copy, Recode, Repack
from store.errors import UnsupportedError
from store.tensorfile import ITEM_BITS, data_bytes
from tests.importer.codecs import corpus, laws

INT4, INT8 = QUANT_TYPES["int4"], QUANT_TYPES["int8"]
few = settings(max_examples=settings.default.max_examples // 5)
each_encoder = pytest.mark.parametrize("case", laws.ENCODERS, ids=laws.case_id)
each_decoder = pytest.mark.parametrize("case", laws.DECODERS, ids=laws.case_id)
each_transcoder = pytest.mark.parametrize("case", laws.TRANSCODERS, ids=laws.case_id)
each_quantization = pytest.mark.parametrize(
    "case",
    [case for case in laws.ENCODERS if hasattr(case.subject, "decode")],
    ids=laws.case_id,
)
each_case = pytest.mark.parametrize(
    "case", [*laws.ENCODERS, *laws.DECODERS, *laws.TRANSCODERS], ids=laws.case_id
)


def check(law, case, data, runtime):
    """Check a law on some tensor, cut somewhere."""
    shape, stored = data.draw(laws.tensors(case))
    law(case, shape, stored, data.draw(laws.cuts(case, shape)), runtime)


@each_encoder
@few
@given(data=st.data())
def test_an_encoder_keeps_the_laws(case, each_runtime, data):
    check(laws.check_encoder, case, data, each_runtime)


@each_decoder
@few
@given(data=st.data())
def test_a_decoder_keeps_the_laws(case, each_runtime, data):
    check(laws.check_decoder, case, data, each_runtime)


@each_transcoder
@few
@given(data=st.data())
def test_a_transcoder_keeps_the_laws(case, each_runtime, data):
    check(laws.check_transcoder, case, data, each_runtime)


@each_quantization
@few
@given(data=st.data())
def test_what_was_encoded_is_decoded_alike_with_kernels_and_without(case, kernels, data):
    shape, (values,) = data.draw(laws.tensors(case))
    laws.check_codec(case.subject, shape, values, kernels)


@each_quantization
def test_large_tensors_keep_the_laws(case, kernels):
    # More than the kernels work on at a time, and than numpy does.
    rng = np.random.default_rng(3)
    shape = (5, 2, 80 * corpus.ROW)
    places = [0, 2 * corpus.ROW, 33 * corpus.ROW, 700 * corpus.ROW, math.prod(shape)]

    for one in (case, laws.decoder(case.subject.spec, case.subject.value_dtype)):
        law = laws.check_encoder if one is case else laws.check_decoder
        law(one, shape, one.stored(shape, rng), places, kernels)


@each_case
def test_it_is_a_value(case):
    laws.check_is_a_value(case.subject)


@each_case
def test_its_kernels_are_values_that_can_be_made_ready(case, kernels):
    laws.check_kernels(case.subject, kernels)


# Laws catch those who break them.


@dataclass(frozen=True, slots=True)
class ByColumns:
    """Values that are stored column after column: what packs along columns has such spans."""

    value_dtype: str

    def unit(self, shape):
        return max(shape[-1], 1)

    def spans(self, shape, elements):
        size = ITEM_BITS[self.value_dtype] // 8
        columns = max(shape[-1], 1)
        rows = range(elements.start // columns, elements.stop // columns)
        height = math.prod(shape) // columns
        return (Span(rows.start * size, len(rows) * size, shape[-1], height * size),)

    def decode(self, arrays, shape, elements, runtime):
        del runtime
        (array,) = arrays
        kind = np.dtype(f"V{ITEM_BITS[self.value_dtype] // 8}")
        rows = len(elements) // max(shape[-1], 1)
        return memoryview(np.frombuffer(array, kind).reshape(shape[-1], rows).T.tobytes())

    def kernels(self, operation):
        del operation
        return ()


def by_columns(shape, rng):
    return [rng.bytes(data_bytes("BF16", shape))]


COLUMNS = laws.Case("columns", ByColumns("BF16"), by_columns, 32)


@given(data=st.data())
def test_spans_may_have_gaps(data):
    check(laws.check_decoder, COLUMNS, data, NUMPY)


@pytest.mark.parametrize("target", [INT8, Downcast("F16")], ids=str)
@given(data=st.data())
def test_what_is_stored_with_gaps_is_recoded(target, kernels, data):
    subject = transcoder_for(target, COLUMNS.subject)
    case = COLUMNS._replace(subject=subject, multiple=192)

    check(laws.check_transcoder, case, data, kernels)


@given(data=st.data())
def test_recoding_is_decoding_and_then_encoding(kernels, data):
    case = laws.from_type(INT8, INT4)
    shape, stored = data.draw(laws.tensors(case))
    whole = [0, math.prod(shape)]

    values = laws.decoded(codec_for(INT8, "BF16"), shape, stored, whole, NUMPY)
    expected = laws.encoded(codec_for(INT4, "BF16"), shape, values, whole, NUMPY)

    assert laws.converted(case.subject, shape, stored, whole, kernels) == expected


@dataclass(frozen=True, slots=True)
class Broken:
    """A codec of bytes that breaks one law or another."""

    law: str
    dtype: str = "U8"
    value_dtype: str = "U8"

    def parts(self, shape):
        return (Part("", "U8", (*shape[:-1], shape[-1] + (self.law == "parts"))),)

    def unit(self, _):
        return 1

    def spans(self, shape, elements):
        size = math.prod(shape)
        if self.law == "beyond" and elements.stop == size:
            return (Span(elements.start, len(elements) + 1),)
        if self.law == "gaps":
            return (Span(elements.start, len(elements) - 1),)
        return (Span(elements.start, len(elements)),)

    def encode(self, values, runtime):
        del runtime
        if self.law == "neighbours":
            values = np.cumsum(np.frombuffer(values, np.uint8), dtype=np.uint8).data
        return Encoded((values,), int(self.law == "count"))

    def decode(self, arrays, shape, elements, runtime):
        del shape, elements
        made = self.encode(arrays[0], runtime).parts[0]
        return made[:-1] if self.law == "short" else made

    def convert(self, arrays, shape, elements, runtime):
        del shape, elements
        return self.encode(arrays[0], runtime)

    def kernels(self, *_):
        return ()


@pytest.mark.parametrize(
    ("law", "who"),
    [
        ("parts", "et"),
        ("beyond", "dt"),
        ("gaps", "dt"),
        ("neighbours", "edt"),
        ("count", "et"),
        ("short", "d"),
    ],
)
def test_a_broken_law_is_noticed(law, who):
    checks = {"e": laws.check_encoder, "d": laws.check_decoder, "t": laws.check_transcoder}
    case = laws.Case(law, Broken(law), lambda shape, _: [bytes(range(1, 1 + shape[-1]))])
    sound = case._replace(subject=Broken(""))

    for kind in who:
        with pytest.raises(AssertionError):
            checks[kind](case, (12,), case.stored((12,), None), [0, 5, 12], NUMPY)
        checks[kind](sound, (12,), case.stored((12,), None), [0, 5, 12], NUMPY)


# Copies, and what becomes what.


def test_plain_values_are_the_very_bytes():
    rows = memoryview(bytearray(b"12345678"))

    assert Plain("F32").decode((rows,), (2,), range(2), NUMPY) is rows
    assert Plain("F32").spans((2, 2), range(1, 3)) == (Span(4, 8),)


def test_a_copy_is_the_very_bytes():
    rows = memoryview(bytearray(b"12345678"))

    assert Copy("F32").parts((2,)) == (Part("", "F32", (2,)),)
    (part,) = Copy("F32").convert((rows,), (2,), range(2), NUMPY).parts
    assert part is rows
    assert Copy("F32").is_lossless


@pytest.mark.parametrize("dtype", ["BF16", "I64", "F8_E4M3", "BOOL"])
def test_what_is_kept_is_copied(dtype):
    assert transcoder_for(None, Plain(dtype)) == Copy(dtype)


@pytest.mark.parametrize(("dtype", "unit"), [("F4", 2), ("F6_E2M3", 4), ("U8", 1), ("C64", 1)])
def test_the_unit_of_plain_values_is_whole_bytes(dtype, unit):
    assert Plain(dtype).unit((8,)) == Copy(dtype).unit((8,)) == unit


def test_what_a_target_needs_is_recoded():
    codec = codec_for(INT8, "F32")

    assert transcoder_for(INT4, Plain("F64")) == Recode(Plain("F64"), codec_for(INT4, "F64"))
    assert transcoder_for(INT4, codec) == Recode(codec, codec_for(INT4, "F32"))
    assert transcoder_for(Downcast("F16"), codec) == Recode(codec, Cast("F32", "F16"))
    assert not transcoder_for(INT4, codec).is_lossless


def test_values_of_another_dtype_are_not_recoded():
    with pytest.raises(AssertionError, match="values of BF16 for an encoder of F16"):
        Recode(Plain("BF16"), codec_for(INT4, "F16"))


@pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
@pytest.mark.parametrize("dtype", corpus.DTYPES)
def test_what_is_a_type_of_the_store_already_is_kept(spec, dtype):
    codec = codec_for(spec, dtype)
    arrays = [memoryview(bytearray(b"codes")), memoryview(bytearray(b"scales"))]

    for target in (None, spec):
        made = transcoder_for(target, codec)
        assert made == Repack(codec)
        assert made.is_lossless
        shape = (3, 4 * corpus.ROW)
        assert made.parts(shape) == codec.parts(shape)
        kept = made.convert(arrays, shape, range(0), NUMPY).parts
        assert all(one is other for one, other in zip(kept, arrays, strict=True))


@pytest.mark.parametrize(
    ("spec", "target"), [(INT8, replace(INT8, group_size=128)), (INT4, QUANT_TYPES["mxfp4"])]
)
def test_a_type_in_other_groups_is_another_type(spec, target):
    codec = codec_for(spec, "F32")

    assert transcoder_for(target, codec) == Recode(codec, codec_for(target, "F32"))


def test_the_type_that_is_stored_is_known():
    assert stored_type(codec_for(INT4, "BF16")) == INT4
    assert stored_type(Plain("BF16")) is None
    # What is decoded to F32 was stored as F32: there is no int4 of F64 to be kept.
    assert stored_type(codec_for(INT4, "F64")) is None


def test_the_arrays_of_a_scheme_are_not_copied():
    with pytest.raises(AssertionError):
        transcoder_for(None, ByColumns("BF16"))


@pytest.mark.parametrize("quant", QUANT_TYPES.values(), ids=QUANT_TYPES)
def test_integers_cannot_be_quantized(quant):
    for refused in (
        lambda: codec_for(quant, "I64"),
        lambda: transcoder_for(quant, Plain("I64")),
    ):
        with pytest.raises(UnsupportedError) as caught:
            refused()
        assert caught.value.code == "E_QUANT_DTYPE"
        assert quant.name in str(caught.value)
        assert "I64" in str(caught.value)


def test_a_type_names_the_module_of_its_codec(monkeypatch):
    made = []

    class Module:
        @staticmethod
        def codec(spec, dtype):
            made.append((spec, dtype))
            return "a codec"

    spec = replace(INT4, codec="importer.codecs.new")
    monkeypatch.setattr(registry.importlib, "import_module", lambda _: Module)

    assert codec_for(spec, "BF16") == "a codec"
    assert made == [(spec, "BF16")]
