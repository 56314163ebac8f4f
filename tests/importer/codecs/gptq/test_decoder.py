"""GPTQ's and AWQ's decoder: the laws, its kernel, and the formulas bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs import runtime
from importer.codecs.gptq import values as gptq_values
from importer.codecs.gptq.decoder import Gptq, GptqKernel
from importer.codecs.gptq.form import Layout
from importer.codecs.reference import floats
from importer.codecs.reference.gptq import Packing, unpack, zero_points
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, FloatType
from importer.codecs.transcode import Repack
from store.errors import InputError
from tests.importer.codecs import laws
from tests.importer.codecs.cases import Case

FORMS = [
    *((Layout.GPTQ, bits, False) for bits in (2, 3, 4, 8)),
    *((Layout.GPTQ, bits, True) for bits in (3, 5, 6, 7)),
    *((Layout.GEMM, bits, False) for bits in range(2, 9)),
    (Layout.GEMV, 4, False),
]
each_form = pytest.mark.parametrize("form", FORMS, ids=str)
few = settings(max_examples=settings.default.max_examples // 5)


@pytest.fixture(scope="module")
def kernel():
    """The kernel, loaded or compiled."""
    kernels = {GptqKernel(along_rows=way): 1 << 40 for way in (False, True)}
    found = runtime.prepare(kernels, lambda: None)
    if found.problem is not None and found.problem.startswith("ModuleNotFoundError"):
        pytest.skip(found.problem)
    assert found.problem is None
    return found


def decoder(form, groups=1, size=32, dtype="F16", **more):
    layout, bits, is_planar = form
    method = "gptq" if layout is Layout.GPTQ else "awq"
    return Gptq(method, layout, bits, size, groups, dtype, is_planar=is_planar, **more)


@st.composite
def tensors(draw, form):
    """A decoder, a shape and arrays: any bits are codes, scales as models have them."""
    layout, bits, is_planar = form
    aligned = 32 if layout is Layout.GPTQ and bits not in {2, 4, 8} else 8 if bits > 2 else 16
    rows = aligned * draw(st.integers(1, 200 // aligned))
    columns = aligned * draw(st.integers(1, 300 // aligned))
    size = draw(st.sampled_from([16, 32, 64, 100, columns]))
    groups = -(-columns // size)
    if layout is Layout.GEMV:
        groups = -(-groups // 8) * 8
    is_gptq = layout is Layout.GPTQ
    has_groups = is_gptq and draw(st.booleans())
    subject = decoder(
        form,
        groups,
        size,
        draw(st.sampled_from(["F16", "BF16", "F32"])),
        less_one=is_gptq and not is_planar and draw(st.booleans()),
        has_groups=has_groups,
        is_reordered=has_groups and draw(st.booleans()),
    )
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    spans = subject.spans((rows, columns), range(rows * columns))
    arrays = [rng.bytes(span.nbytes) for span in spans]
    scales = rng.random(rows * groups, np.float32) - np.float32(0.5)
    arrays[2] = floats.narrow(scales, subject.scale_dtype).tobytes()
    if has_groups:
        arrays[3] = rng.integers(0, groups, columns, np.uint32).tobytes()
    return subject, (rows, columns), arrays


@pytest.mark.usefixtures("small_units")
@each_form
@few
@given(data=st.data())
def test_it_keeps_the_laws(form, kernel, data):
    subject, shape, arrays = data.draw(tensors(form))
    case = Case("gptq", subject, None)
    laws.check_decoder(case, shape, arrays, data.draw(laws.cuts(case, shape)), kernel)


@pytest.fixture(scope="module")
def small_units():
    """Small units, so that small tensors have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importer.codecs.gptq.decoder._UNIT", 5000)
        yield


@each_form
@few
@given(data=st.data())
def test_values_are_those_of_each_bit(form, data):
    subject, shape, arrays = data.draw(tensors(form))
    whole = range(math.prod(shape))

    made = subject.decode(arrays, shape, whole, NUMPY)

    values = np.frombuffer(made, "<f4").reshape(shape)
    for _ in range(20):
        row, column = (data.draw(st.integers(0, size - 1)) for size in shape)
        assert values[row, column] == expected(subject, shape, arrays, row, column)


def expected(subject, shape, arrays, row, column):
    """One value, by the layout in words: slow, and with numbers of any size."""
    rows, columns = shape
    bits, layout = subject.bits, subject.layout
    words = [np.frombuffer(array, "<u4") for array in arrays[:2]]
    scales = np.frombuffer(arrays[2], floats.STORED[subject.scale_dtype])
    group = column // subject.group_size
    if subject.is_reordered:
        group = int(np.frombuffer(arrays[3], "<u4")[column])
    if layout is Layout.GEMV:
        line = words[0].reshape(rows, -1)[row]
        zeros, at = words[1].reshape(rows, -1)[row], group
        scale = scales.reshape(rows, -1)[row, group]
    else:
        zeros, at = words[1].reshape(subject.groups, -1)[group], row
        scale = scales.reshape(subject.groups, -1)[group, row]
        if layout is Layout.GPTQ:
            line = words[0].reshape(-1, rows)[:, row]
        else:
            line = words[0].reshape(columns, -1)[column]
    order = subject.is_planar, layout is Layout.GEMM and bits == 4
    code = field(line, row if layout is Layout.GEMM else column, bits, *order)
    if subject.less_one:
        zeros = plus_one(zeros, bits)
    zero = field(zeros, at, bits, *order)
    wide = floats.widen(np.array([scale]), subject.scale_dtype)[0]
    return np.float32(np.float32(code - zero) * wide)


def field(words, at, bits, is_planar, is_interleaved):
    """One code of some words."""
    stream = int.from_bytes(words.tobytes(), "little")
    mask = (1 << bits) - 1
    if is_interleaved:
        place = [0, 2, 4, 6, 1, 3, 5, 7].index(at % 8)
        return stream >> 4 * (at - at % 8 + place) & mask
    if not is_planar:
        return stream >> at * bits & mask
    block, inside = divmod(at, 32)
    start, code, lowest = block * 32 * bits, 0, 0
    for width in {3: (2, 1), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1)}[bits]:
        found = stream >> start + inside * width & (1 << width) - 1
        code |= found << lowest
        start, lowest = start + 32 * width, lowest + width
    return code


def plus_one(words, bits):
    """What GPTQModel makes of zero points of the first version when it loads them."""
    if bits != 3 and 32 % bits == 0:
        ones = sum(1 << at for at in range(0, 32, bits))
        return np.array([(int(word) + ones) % (1 << 32) for word in words], "<u4")
    stream, made = int.from_bytes(words.tobytes(), "little"), 0
    mask = (1 << bits) - 1
    for at in range(0, 32 * len(words) - bits + 1, bits):
        made |= ((stream >> at & mask) + 1 & mask) << at
    return np.frombuffer(made.to_bytes(4 * len(words) + 4, "little"), "<u4")[: len(words)]


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_values_are_exact_and_round_to_what_the_library_computes(dtype):
    # All scales, with every difference that a code and a zero point can have.
    scales = np.arange(1 << 16, dtype=np.uint16)
    scales = scales[np.abs(floats.widen(scales, dtype)) < 1e30]
    wide = floats.widen(scales, dtype)
    for difference in (*range(-255, 256, 17), -7, 1, 2, 8, 13, 15):
        made = np.float32(difference) * wide
        assert np.array_equal(made.astype(np.float64), difference * wide.astype(np.float64))
        if dtype == "F16":
            with np.errstate(over="ignore"):
                theirs = np.float16(difference) * scales.view(np.float16)
            assert np.array_equal(floats.narrow(made, "F16"), theirs.view(np.uint16))


def test_a_zero_borrows_from_its_neighbour_as_in_the_library():
    zeros = np.array([[0, 5, 15, 8, 1, 0, 0, 3]], np.uint32)
    word = sum(int(zero) << 4 * at for at, zero in enumerate(zeros[0]))
    stored = np.array([[(word - 0x1111_1111) % (1 << 32)]], np.uint32)

    found = zero_points(stored, 4, Packing.STREAM, less_one=True)

    assert np.array_equal(found[:, :8], zeros)


@pytest.mark.parametrize("way", Packing)
def test_words_of_a_block_that_is_not_full_are_read(way):
    bits = 5 if way is Packing.PLANES else 4
    words = np.arange(3 * bits - 2, dtype=np.uint32).reshape(1, -1) * np.uint32(2654435761)
    full = np.pad(words, ((0, 0), (0, 2)))

    assert np.array_equal(unpack(words, bits, way), unpack(full, bits, way))
    assert unpack(full, bits, way).shape == (1, 96)


def test_groups_that_changed_meanwhile_are_an_error():
    subject = decoder((Layout.GPTQ, 4, False), 2, has_groups=True, is_reordered=True)
    spans = subject.spans((8, 64), range(512))
    arrays = [bytes(span.nbytes) for span in spans[:3]]
    groups = np.full(64, 2, np.uint32).tobytes()

    with pytest.raises(InputError, match="changed") as caught:
        subject.decode([*arrays, groups], (8, 64), range(512), NUMPY)

    assert caught.value.code == "E_SOURCE_CHANGED"


@pytest.mark.parametrize("shape", [(0, 64), (64, 0)])
def test_nothing_is_decoded_to_nothing(shape):
    subject = decoder((Layout.GPTQ, 4, False), 2)

    assert subject.unit(shape) == 1
    assert bytes(subject.decode([b""] * 3, shape, range(0), NUMPY)) == b""


@each_form
def test_it_is_a_value(form):
    laws.check_is_a_value(decoder(form))


@each_form
@few
@given(data=st.data())
def test_codes_move_to_a_type_of_the_store_with_the_same_values(form, data):
    subject, shape, arrays = data.draw(tensors(form))
    spec = subject.holds(shape)
    if spec is None:
        assert (
            subject.bits == 7
            or subject.is_reordered
            or subject.scale_dtype == "F32"
            or math.gcd(shape[1], min(subject.group_size, shape[1])) % 32
        )
        return
    whole = range(math.prod(shape))
    case = Case("repacked", Repack(subject, codec_for(spec, "F32")), None)

    laws.check_transcoder(case, shape, arrays, data.draw(laws.cuts(case, shape)), NUMPY)

    made = subject.repack(arrays, shape, whole, NUMPY)
    found = codec_for(spec, "F32").decode(made.parts, shape, whole, NUMPY)
    values = subject.decode(arrays, shape, whole, NUMPY)
    assert made.nonfinite == 0
    assert np.array_equal(np.frombuffer(found, "<f4"), np.frombuffer(values, "<f4"))


@pytest.mark.parametrize(
    ("size", "columns", "expected"),
    [(128, 256, 128), (64, 256, 64), (256, 512, 128), (32, 96, 32), (96, 192, 32),
     (16, 64, None), (48, 96, None), (96, 96, 32), (4096, 4096, 128), (1024, 96, 32),
     (128, 160, 32)],
)  # fmt: skip
def test_groups_of_the_store_are_within_groups(size, columns, expected):
    spec = decoder((Layout.GPTQ, 4, False), -(-columns // size), size).holds((32, columns))

    assert (spec and spec.group_size) == expected


def test_scales_that_are_not_finite_are_counted():
    subject = decoder((Layout.GPTQ, 4, False), 2)
    spans = subject.spans((32, 64), range(2048))
    arrays = [bytes(span.nbytes) for span in spans]
    arrays[2] = np.array([np.inf, np.nan, *[1] * 62], np.float16).tobytes()

    assert subject.repack(arrays, (32, 64), range(2048), NUMPY).nonfinite == 64


@each_form
def test_every_nan_is_the_same(form, kernel):
    subject = decoder(form, 8, 8, "F32")
    shape, whole = (64, 64), range(64 * 64)
    arrays = [bytes(span.nbytes) for span in subject.spans(shape, whole)]
    arrays[2] = np.full(64 * 8, 0xFFC0_0001, "<u4").tobytes()

    for way in (kernel, NUMPY):
        made = np.frombuffer(subject.decode(arrays, shape, whole, way), "<u4")
        assert np.unique(made).tolist() == [0x7FC0_0000]


def test_a_kernel_that_differs_is_not_used():
    class Wrong:
        def decode(self, form, words, scaling, values):
            gptq_values._decode(form, words, scaling, values)
            values[0, 0] += form.layout is Layout.GEMV

    with pytest.raises(ArithmeticError, match="awq int4/32"):
        gptq_values.check(Wrong(), along_rows=False)


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("target", [QUANT_TYPES["int4"], FloatType("BF16")], ids=str)
@given(data=st.data())
def test_it_is_recoded_in_pieces(target, kernel, data):
    subject, shape, arrays = data.draw(tensors((Layout.GPTQ, 4, False)))
    size = getattr(target, "group_size", 1)
    if shape[1] % size:
        return
    case = Case("recoded", transcoder_for(target, subject), None)
    laws.check_transcoder(case, shape, arrays, data.draw(laws.cuts(case, shape)), kernel)
