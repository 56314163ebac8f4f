"""Every encoder, decoder and transcoder keeps what it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.base import Encoded, Part, Span
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, FloatType
from tests.importer.codecs import cases, corpus, laws

INT4, INT8 = QUANT_TYPES["int4"], QUANT_TYPES["int8"]
few = settings(max_examples=settings.default.max_examples // 5)
each_encoder = pytest.mark.parametrize("case", cases.ENCODERS, ids=cases.case_id)
each_decoder = pytest.mark.parametrize("case", cases.DECODERS, ids=cases.case_id)
each_transcoder = pytest.mark.parametrize("case", cases.TRANSCODERS, ids=cases.case_id)
each_quantization = pytest.mark.parametrize(
    "case",
    [case for case in cases.ENCODERS if hasattr(case.subject, "decode")],
    ids=cases.case_id,
)
each_case = pytest.mark.parametrize(
    "case", [*cases.ENCODERS, *cases.DECODERS, *cases.TRANSCODERS], ids=cases.case_id
)


def check(law, case, data, runtime):
    """Check a law on some tensor, cut somewhere."""
    shape, stored = data.draw(cases.tensors(case))
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
    shape, (values,) = data.draw(cases.tensors(case))
    laws.check_codec(case.subject, shape, values, kernels)


@each_quantization
def test_large_tensors_keep_the_laws(case, kernels):
    # More than the kernels work on at a time, and than numpy does.
    rng = np.random.default_rng(3)
    shape = (5, 2, 80 * corpus.ROW)
    places = [0, 2 * corpus.ROW, 33 * corpus.ROW, 700 * corpus.ROW, math.prod(shape)]

    for one in (case, cases.decoder(case.subject.spec, case.subject.value_dtype)):
        law = laws.check_encoder if one is case else laws.check_decoder
        law(one, shape, one.stored(shape, rng), places, kernels)


@each_case
def test_it_is_a_value(case):
    laws.check_is_a_value(case.subject)


@each_case
def test_its_kernels_are_values_that_can_be_made_ready(case, kernels):
    laws.check_kernels(case.subject, kernels)


# Spans with gaps, and broken laws.


@given(data=st.data())
def test_spans_may_have_gaps(data):
    check(laws.check_decoder, cases.COLUMNS, data, NUMPY)


@pytest.mark.parametrize("target", [INT8, FloatType("F16")], ids=str)
@given(data=st.data())
def test_what_is_stored_with_gaps_is_recoded(target, kernels, data):
    subject = transcoder_for(target, cases.COLUMNS.subject)
    case = cases.COLUMNS._replace(subject=subject, multiple=192)

    check(laws.check_transcoder, case, data, kernels)


@given(data=st.data())
def test_recoding_is_decoding_and_then_encoding(kernels, data):
    case = cases.from_type(INT8, INT4)
    shape, stored = data.draw(cases.tensors(case))
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
    case = cases.Case(law, Broken(law), lambda shape, _: [bytes(range(1, 1 + shape[-1]))])
    sound = case._replace(subject=Broken(""))

    for kind in who:
        with pytest.raises(AssertionError):
            checks[kind](case, (12,), case.stored((12,), None), [0, 5, 12], NUMPY)
        checks[kind](sound, (12,), case.stored((12,), None), [0, 5, 12], NUMPY)
