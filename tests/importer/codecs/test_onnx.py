"""The decoders of ONNX's arrays and weights keep the laws, and give what is defined."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.onnx.dequantize_linear import DequantizeLinear
from importer.codecs.onnx.matmul_nbits import MatMulNBits
from importer.codecs.onnx.packed_integers import PackedIntegers
from importer.codecs.onnx.varints import Tagged, Varints
from importer.codecs.plain import Plain
from importer.codecs.reference import float8, floats
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.runtime import NUMPY
from tests.importer.codecs import laws
from tests.importer.formats.onnx.builders import varint

few = settings(max_examples=settings.default.max_examples // 5)
STEP = 8


class Case(NamedTuple):
    """What the laws are told: a decoder."""

    subject: object


def varints(dtype, numbers, *, tagged=False):
    """The decoder of some numbers, and their bytes."""
    pieces = [b"\x28" * tagged + varint(int(number)) for number in numbers]
    starts = tuple(len(b"".join(pieces[:at])) for at in range(0, len(pieces) + 1, STEP))
    data = b"".join(pieces)
    return Varints(dtype, starts, len(data), STEP, tagged), data


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize(("dtype", "kind"), [("U8", "u1"), ("I32", "<i4"), ("I64", "<i8")])
@few
@given(data=st.data())
def test_numbers_of_any_length_are_read_from_any_place(dtype, kind, tagged, data):
    limits = np.iinfo(kind)
    numbers = data.draw(st.lists(st.integers(limits.min, limits.max), min_size=1, max_size=50))
    decoder, stored = varints(dtype, numbers, tagged=tagged)
    count = len(numbers)
    unit = decoder.unit((count,))
    places = [*range(0, count, unit), count]

    values = laws.decoded(decoder, (count,), [stored], places, NUMPY)
    assert np.frombuffer(values, kind).tolist() == numbers
    assert laws.decoded(decoder, (count,), [stored], [0, count], NUMPY) == values
    laws.check_is_a_value(decoder)


def test_low_bits_of_long_numbers_are_values():
    decoder, stored = varints("I8", [-1, 255, 300, -128, 1 << 40])

    values = laws.decoded(decoder, (5,), [stored], [0, 5], NUMPY)
    assert np.frombuffer(values, "i1").tolist() == [-1, -1, 44, -128, 0]


def test_values_after_their_tags():
    numbers = np.arange(6, dtype="<f4")
    stored = b"".join(b"\x25" + number.tobytes() for number in numbers)

    laws.check_decoder(Case(Tagged("F32")), (2, 3), [stored], [0, 1, 5, 6], NUMPY)
    assert laws.decoded(Tagged("F32"), (6,), [stored], [0, 2, 6], NUMPY) == numbers.tobytes()


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("dtype", ["U8", "I8"])
@few
@given(data=st.data())
def test_packed_integers(bits, dtype, data):
    low = -(1 << (bits - 1)) if dtype == "I8" else 0
    numbers = data.draw(st.lists(st.integers(low, low + (1 << bits) - 1), min_size=1))
    each, count = 8 // bits, len(numbers)
    codes = [number & ((1 << bits) - 1) for number in numbers] + [0] * (-count % each)
    packed = bytes(
        sum(code << (bits * place) for place, code in enumerate(codes[at : at + each]))
        for at in range(0, len(codes), each)
    )
    decoder = PackedIntegers(dtype, bits, Plain("U8"))
    written, stored = varints("U8", packed)

    for subject, array in ((decoder, packed), (PackedIntegers(dtype, bits, written), stored)):
        unit = subject.unit((count,))
        places = [*range(0, count, unit), count]
        values = laws.decoded(subject, (count,), [array], places, NUMPY)
        assert np.frombuffer(values, ITEM[dtype]).tolist() == numbers


ITEM = {"U8": "u1", "I8": "i1"}
LINEAR = {
    "one scale": ((4, 6), None, 0),
    "rows": ((4, 6), 0, 0),
    "columns": ((4, 6), 1, 0),
    "the middle": ((3, 4, 5), 1, 0),
    "blocks of columns": ((4, 12), 1, 4),
    "blocks that are not full": ((4, 10), 1, 4),
    "blocks of rows": ((8, 6), 0, 4),
    "blocks of the middle": ((2, 7, 3), 1, 4),
    "one row": ((1, 8), 0, 0),
    "a vector": ((12,), 0, 0),
}


def spread(one, shape, axis, block):
    """Scales for every element, by definition."""
    if axis is None:
        return one
    if not block:
        return one.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    return np.repeat(one, block, axis)[tuple(slice(size) for size in shape)]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("row", LINEAR)
@few
@given(data=st.data())
def test_dequantized_values_are_those_by_definition(row, is_large, data):
    shape, axis, block = LINEAR[row]
    decoder = DequantizeLinear(Plain("I8"), "int8", Plain("F32"), Plain("I8"), axis, block)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    codes = rng.integers(-128, 128, shape, dtype=np.int8)
    sides = decoder.scale_shape(shape)
    scale = rng.standard_normal(sides).astype("<f4").reshape(sides)
    zero = np.asarray(rng.integers(-128, 128, sides), dtype=np.int8)
    stored = [codes.tobytes(), scale.tobytes(), zero.tobytes()]

    with pytest.MonkeyPatch.context() as patch:
        if is_large:  # rows of which a part is decoded alone
            patch.setattr("importer.codecs.onnx.dequantize_linear._ROW", 1)
        unit = decoder.unit(shape)
        count = math.prod(shape) // unit
        places = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
        cuts = [0, *(place * unit for place in places), math.prod(shape)]
        laws.check_decoder(Case(decoder), shape, stored, cuts, NUMPY)
        values = laws.decoded(decoder, shape, stored, cuts, NUMPY)

    centered = codes.astype(np.float32) - spread(zero, shape, axis, block).astype(np.float32)
    expected = centered * spread(scale, shape, axis, block)
    assert values == expected.astype("<f4").tobytes()


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero", ["none", "packed", "floats"])
@pytest.mark.parametrize("columns", [32, 100])
@few
@given(data=st.data())
def test_values_of_n_bits_are_those_by_definition(bits, zero, columns, data):
    rows, block = 5, 16
    blocks = -(-columns // block)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    codes = rng.integers(0, 1 << bits, (rows, blocks * block), dtype=np.uint8)
    scale = rng.standard_normal((rows, blocks)).astype(np.float32)
    zeros = np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    aside = None
    stored = [pack(codes, bits), scale.tobytes()]
    if zero == "packed":
        zeros = rng.integers(0, 1 << bits, (rows, blocks), dtype=np.uint8)
        aside = Plain("U8")
        stored.append(pack(zeros, bits))
    elif zero == "floats":
        zeros = rng.standard_normal((rows, blocks)).astype(np.float32)
        aside = Plain("F32")
        stored.append(zeros.tobytes())
    decoder = MatMulNBits(bits, block, Plain("U8"), Plain("F32"), aside)
    shape = (rows, columns)

    laws.check_decoder(Case(decoder), shape, stored, [0, 2 * columns, 5 * columns], NUMPY)
    values = laws.decoded(decoder, shape, stored, [0, 5 * columns], NUMPY)

    full = [np.repeat(one.astype(np.float32), block, 1) for one in (scale, zeros)]
    wide = codes.astype(np.float32)
    if zero == "floats":
        expected = wide * full[0] + -full[0] * full[1]
    else:
        expected = (wide - full[1]) * full[0]
    assert values == np.ascontiguousarray(expected[:, :columns]).tobytes()
    laws.check_is_a_value(decoder)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [32, 64, 128])
@pytest.mark.parametrize(
    ("dtype", "zero"),
    [("F16", "none"), ("F16", "packed"), ("BF16", "packed"), ("F32", "floats")],
)
def test_codes_move_into_a_type_of_the_store(bits, block, dtype, zero):
    rng = np.random.default_rng(bits + block)
    rows, blocks = 6, 3
    shape = (rows, blocks * block)
    codes = rng.integers(0, 1 << bits, shape, dtype=np.uint8)
    scale = rng.standard_normal((rows, blocks)).astype("<f4")
    stored = [pack(codes, bits), floats_of(scale, dtype)]
    aside = {"none": None, "packed": Plain("U8"), "floats": Plain("F32")}[zero]
    if zero == "packed":
        stored.append(pack(rng.integers(0, 1 << bits, (rows, blocks), dtype=np.uint8), bits))
    elif zero == "floats":
        stored.append(rng.standard_normal((rows, blocks)).astype("<f4").tobytes())
    decoder = MatMulNBits(bits, block, Plain("U8"), Plain(dtype), aside)
    held = decoder.holds(shape)
    subject = transcoder_for(held, decoder, exact=True)

    assert (held.name, held.group_size) == (f"int{bits}", block)
    laws.check_transcoder(Case(subject), shape, stored, [0, 2 * shape[1], 6 * shape[1]], NUMPY)
    whole = [0, math.prod(shape)]
    made = laws.converted(subject, shape, stored, whole, NUMPY)
    values = laws.decoded(codec_for(held, "F32"), shape, made.parts, whole, NUMPY)
    expected = laws.decoded(decoder, shape, stored, whole, NUMPY)
    assert made.nonfinite == 0
    np.testing.assert_array_equal(np.frombuffer(values, "<f4"), np.frombuffer(expected, "<f4"))


@pytest.mark.parametrize(
    "decoder",
    [
        MatMulNBits(4, 32, Plain("U8"), Plain("F32")),
        MatMulNBits(4, 32, Plain("U8"), Plain("F32"), Plain("U8")),
        MatMulNBits(4, 16, Plain("U8"), Plain("F16")),
        MatMulNBits(4, 256, Plain("U8"), Plain("F16")),
        MatMulNBits(4, 32, Plain("U8"), Plain("F16"), None, Plain("I32")),
    ],
)
def test_what_would_be_rounded_otherwise_has_no_type(decoder):
    assert decoder.holds((4, 256)) is None


def test_a_row_that_does_not_fill_its_blocks_has_no_type():
    assert MatMulNBits(4, 32, Plain("U8"), Plain("F16")).holds((4, 40)) is None


def test_products_that_are_not_finite_are_counted():
    decoder = MatMulNBits(4, 32, Plain("U8"), Plain("BF16"))
    scale = np.array([1e38, 1], np.float32)
    stored = [bytes(32), floats_of(scale, "BF16")]

    assert decoder.repack(stored, (2, 32), range(64), NUMPY).nonfinite == 32


def floats_of(values, dtype):
    """Values as bytes of a dtype."""
    return floats.narrow(values, dtype).tobytes()


def pack(codes, bits):
    """Codes in bytes, the first in the lowest bits, rows filled up to whole bytes."""
    each = 8 // bits
    padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % each))).reshape(len(codes), -1, each)
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(padded << shifts, axis=2).astype(np.uint8).tobytes()


def test_columns_may_choose_their_blocks():
    groups = np.array([3, 0, 1, 2] * 16, "<i4")
    codes = np.arange(64, dtype=np.uint8).reshape(1, 64) & 15
    scale = np.array([1, 10, 100, 1000], np.float32)
    decoder = MatMulNBits(4, 16, Plain("U8"), Plain("F32"), None, Plain("I32"))
    stored = [pack(codes, 4), scale.tobytes(), groups.tobytes()]

    values = laws.decoded(decoder, (1, 64), stored, [0, 64], NUMPY)
    expected = codes.astype(np.float32) * scale[groups] + -scale[groups] * np.float32(8)
    assert values == expected.tobytes()


@pytest.mark.parametrize(
    ("dtype", "theirs"),
    [
        ("F8_E4M3", "float8_e4m3fn"),
        ("F8_E4M3FNUZ", "float8_e4m3fnuz"),
        ("F8_E5M2", "float8_e5m2"),
        ("F8_E5M2FNUZ", "float8_e5m2fnuz"),
    ],
)
def test_floats_of_8_bits_are_those_of_ml_dtypes(dtype, theirs):
    import ml_dtypes

    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(getattr(ml_dtypes, theirs)).astype(np.float32)
    np.testing.assert_array_equal(float8.widen(codes.data, dtype), expected)
    ordinary = ~np.isnan(expected)
    found = float8.widen(codes.data, dtype)
    assert (np.signbit(found) == np.signbit(expected))[ordinary].all()
