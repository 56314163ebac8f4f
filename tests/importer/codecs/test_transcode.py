"""Which transcoder makes what of which arrays: a copy, a repack, or decoding and encoding."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs import registry
from importer.codecs.base import Part, Span
from importer.codecs.cast import Cast
from importer.codecs.plain import Plain
from importer.codecs.reference.minifloats import E4M3_VALUES
from importer.codecs.registry import codec_for, stored_type, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, FloatType
from importer.codecs.transcode import Copy, CopyParts, Recode
from store.errors import UnsupportedError
from tests.importer.codecs import cases, corpus

INT4, INT8 = QUANT_TYPES["int4"], QUANT_TYPES["int8"]


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
    assert transcoder_for(FloatType("F16"), codec) == Recode(codec, Cast("F32", "F16"))
    assert not transcoder_for(INT4, codec).is_lossless


def test_the_least_values_of_mxfp8_stay_in_f32():
    """BF16, to which MLX decodes, ends at 2 ** -133."""
    codec = codec_for(QUANT_TYPES["mxfp8"], "BF16")
    codes, scales = np.arange(32, dtype=np.uint8) << 1, np.array([0], np.uint8)

    made = transcoder_for(FloatType("F32"), codec)
    (part,) = made.convert((codes.data, scales.data), (1, 32), range(32), NUMPY).parts

    exact = E4M3_VALUES[codes].astype(np.float64) * 2.0**-127
    assert np.frombuffer(part, np.float32).tolist() == exact.tolist()
    assert transcoder_for(FloatType("F16"), codec) == Recode(codec, Cast("BF16", "F16"))


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
        assert made == CopyParts(codec)
        assert made.is_lossless
        shape = (3, 4 * corpus.ROW)
        assert made.parts(shape) == codec.parts(shape)
        kept = made.convert(arrays, shape, range(0), NUMPY).parts
        assert all(one is other for one, other in zip(kept, arrays, strict=True))


@pytest.mark.parametrize(
    ("spec", "target"), [(INT8, INT8._replace(group_size=128)), (INT4, QUANT_TYPES["mxfp4"])]
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
        transcoder_for(None, cases.ByColumns("BF16"))


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

    spec = INT4._replace(codec="importer.codecs.new")
    monkeypatch.setattr(registry.importlib, "import_module", lambda _: Module)

    assert codec_for(spec, "BF16") == "a codec"
    assert made == [(spec, "BF16")]
