"""The codecs of UQFF's own types keep the laws, and equal a slow form of their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.base import Operation
from importer.codecs.described import Described
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.plain import Plain
from importer.codecs.reference import floats, fp8
from importer.codecs.reference.minifloats import E4M3_VALUES
from importer.codecs.runtime import NUMPY, prepare
from importer.codecs.spec import QUANT_TYPES, with_group_size
from importer.codecs.uqff import hqq_groups
from importer.codecs.uqff.f8q8 import F8Q8, F8Q8Encoder
from importer.codecs.uqff.groups import UqffGroups
from importer.codecs.uqff.hqq import Hqq
from importer.codecs.uqff.to_hqq import STEPS, HqqKernel, ToHqq
from tests.importer.codecs import cases, corpus, laws

few = settings(max_examples=settings.default.max_examples // 5)


def hqq(bits, group_size, size):
    """Packed codes, then scales and zero points of `size` bytes: any."""

    def stored(shape, rng):
        count = math.prod(shape)
        small = count // group_size * size
        return [rng.bytes(count * bits // 8), rng.bytes(small), rng.bytes(small)]

    return stored


def f8q8(shape, rng):
    """Blocks of which the last one may be filled up."""
    return [rng.bytes(-(-math.prod(shape) // 32) * 33)]


def described(shape, rng):
    """Values, and what is beside them."""
    return [*cases.plain("F32")(shape, rng), b"abcd", b"", b"e"]


CASES = [
    cases.Case("hqq-int4-F32", Hqq(4, 8, "F32"), hqq(4, 8, 4), 8),
    cases.Case("hqq-int8-BF16", Hqq(8, 64, "BF16"), hqq(8, 64, 2), 64),
    cases.Case("hqq-int2-F16", Hqq(2, 4, "F16"), hqq(2, 4, 2), 4),
    cases.Case("f8q8", F8Q8(), f8q8),
    cases.Case("described", Described(Plain("F32"), (4, 0, 1)), described),
]
each_case = pytest.mark.parametrize("case", CASES, ids=cases.case_id)


@each_case
@few
@given(data=st.data())
def test_a_decoder_keeps_the_laws(case, data):
    shape, stored = data.draw(cases.tensors(case))
    places = data.draw(laws.cuts(case, shape))
    laws.check_decoder(case, shape, stored, places, NUMPY)


@each_case
def test_it_is_a_value(case):
    laws.check_is_a_value(case.subject)
    laws.check_kernels(case.subject, NUMPY)


@pytest.mark.parametrize(
    ("decoder", "shown"),
    [
        (Hqq(4, 64, "F32"), "hqq int4/64"),
        (F8Q8(), "f8q8"),
        (Described(Ggml("Q4_K"), (1,)), "Q4_K"),
    ],
)
def test_it_says_its_type(decoder, shown):
    assert str(decoder) == shown


@pytest.mark.parametrize(("bits", "rows"), [(1, 8), (2, 12), (4, 64), (8, 5)])
def test_hqq_equals_its_formula_element_by_element(bits, rows):
    rng = np.random.default_rng(bits)
    width, packed_rows = 6, rows * bits // 8
    packed = rng.integers(0, 256, (packed_rows, width), np.uint8)
    scales, zeros = rng.standard_normal((2, width)).astype(np.float32)
    shape = (2, rows * width // 2)

    stored = [packed.tobytes(), scales.tobytes(), zeros.tobytes()]
    found = laws.decoded(Hqq(bits, rows, "F32"), shape, stored, [0, math.prod(shape)], NUMPY)

    expected = []
    for row in range(rows):
        part, place = divmod(row, packed_rows)
        for column in range(width):
            code = int(packed[place, column]) >> (8 - bits * (part + 1)) & ((1 << bits) - 1)
            distance = np.float32(code) - zeros[column]
            expected.append(distance * scales[column])
    assert found == np.array(expected, np.float32).tobytes()


@pytest.mark.parametrize("width", [1, 3, 64, 1000])
@given(data=st.data())
def test_hqq_reads_at_most_twice_what_it_needs(width, data):
    decoder, shape = Hqq(4, 64, "F16"), (64, width)
    start = data.draw(st.integers(0, 64 * width))
    stop = data.draw(st.integers(start, 64 * width))

    codes, *small = decoder.spans(shape, range(start, stop))

    assert codes.nbytes <= 2 * (stop - start)
    assert all(span.nbytes <= 2 * 2 * (stop - start) for span in small)


def test_a_block_of_f8q8_may_hold_the_end_of_a_row_and_the_beginning_of_the_next():
    codes = np.arange(-32, 32, dtype=np.int8).reshape(2, 32)
    # E4M3: 1.0, and 2.0.
    blocks = np.concatenate([np.array([[0x38], [0x40]], np.uint8), codes.view(np.uint8)], 1)

    found = laws.decoded(F8Q8(), (3, 20), [blocks.tobytes()], [0, 8, 60], NUMPY)

    scale = np.array([[1], [2]], np.float32) / np.float32(416)
    assert found == (codes * scale).astype(np.float32).tobytes()[: 60 * 4]


def test_codes_move_into_a_type_of_the_store_without_what_is_beside_them():
    stored, shape = [np.random.default_rng(1).bytes(4 * 34)], (2, 64)
    asked = (shape, range(128), NUMPY)

    for kind in ("Q8_0", "Q6_K"):
        assert Described(Ggml(kind), (4,)).holds(shape) == Ggml(kind).holds(shape)
    found = Described(Ggml("Q8_0"), (4, 1)).repack([*stored, b"abcd", b"e"], *asked)
    expected = Ggml("Q8_0").repack(stored, *asked)

    assert [bytes(part) for part in found.parts] == [bytes(part) for part in expected.parts]
    assert Described(F8Q8(), (1,)).holds(shape) is None


ENCODED = {
    **{
        f"afq{bits}/{group_size}-{dtype}": UqffGroups(
            with_group_size(QUANT_TYPES[f"int{bits}"], group_size), dtype
        )
        for bits in (2, 3, 4, 6, 8)
        for group_size in (32, 64, 128)
        for dtype in ("F32", "BF16", "F16")
    },
    "mxfp4-F32": UqffGroups(QUANT_TYPES["mxfp4"], "F32"),
    "f8q8": F8Q8Encoder(),
}
each_encoder = pytest.mark.parametrize("codec", ENCODED.values(), ids=ENCODED)


@each_encoder
def test_an_encoder_makes_what_it_promised_wherever_it_is_cut(codec):
    values = corpus.ordinary("F32", 12 * 128, np.random.default_rng(3)).view(np.float32)
    values = floats.narrow(values.reshape(-1), codec.dtype)
    shape, data = (12, values.size // 12), values.view(np.uint8).data
    whole = laws.encoded(codec, shape, data, [0, values.size], NUMPY)
    cut = laws.encoded(codec, shape, data, [0, 256, 768, values.size], NUMPY)

    assert cut == whole
    assert [len(part) for part in whole.parts] == [one.nbytes for one in codec.parts(shape)]


@pytest.mark.parametrize("group_size", [32, 64, 128])
@pytest.mark.parametrize("dtype", corpus.DTYPES)
def test_the_kernel_of_afq_makes_what_numpy_makes(dtype, group_size):
    for bits in (3, 4, 8):
        spec = with_group_size(QUANT_TYPES[f"int{bits}"], group_size)
        codec = UqffGroups(spec, dtype)
        kernels = prepared(codec.kernels(Operation.ENCODE))
        for values in ((0, 1), (0.5, 0.5), (-1, -1e-13), (1e-13, 0), (1, 2)):
            group = np.linspace(*values, group_size).astype(np.float32)
            rows = floats.narrow(group, dtype).view(np.uint8).data
            assert codec.encode(rows, kernels) == codec.encode(rows, NUMPY), (bits, values)


def prepared(specs):
    """A runtime with these kernels alone: no other one is compiled for this."""
    found = prepare(dict.fromkeys(specs, 1 << 40), lambda: None)
    if (found.problem or "").startswith("ModuleNotFoundError"):
        pytest.skip(found.problem)
    assert found.problem is None
    return found


def mxfp4_groups(dtype):
    """Groups with every largest magnitude, of all kinds of numbers, and many of each code."""
    rng = np.random.default_rng(5)
    sizes = np.arange(0x8000, dtype=np.uint16)
    largest = floats.widen(sizes[floats.widen(sizes, "BF16") < np.inf], "BF16")
    every = largest[:, None] * rng.uniform(-1, 1, (len(largest), 32)).astype(np.float32)
    every[:, 0] = largest
    # Halfway between codes, and around powers of two times 6, whose logarithms round up.
    middles = np.array([6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.0, -0.25], np.float32)
    below = np.nextafter(middles, np.float32(0))
    near = np.resize(np.concatenate([middles, below, -middles, -below]), (40, 32))
    near[:, 0] = np.ldexp(np.float32(6), np.arange(-20, 20)) * (
        1 - 2.0**-24 * (np.arange(40) % 9)
    )
    made = [floats.narrow(part.astype(np.float32), dtype).reshape(-1) for part in (every, near)]
    return np.concatenate([*made, corpus.everything(dtype, 4).reshape(-1)])


@pytest.mark.parametrize("dtype", corpus.DTYPES)
def test_the_kernel_of_mxfp4_makes_what_numpy_makes(dtype):
    codec = UqffGroups(QUANT_TYPES["mxfp4"], dtype)
    kernels = prepared(codec.kernels(Operation.ENCODE))
    with np.errstate(all="ignore"):
        rows = memoryview(mxfp4_groups(dtype)).cast("B")

    assert codec.encode(rows, kernels) == codec.encode(rows, NUMPY)
    weights = memoryview(corpus.ordinary(dtype, 500, np.random.default_rng(8)).reshape(-1))
    for groups in (0, 1, 255, 256, 257, 2000):
        some = weights[: 32 * groups].cast("B") if groups else b""
        assert codec.encode(some, kernels) == codec.encode(some, NUMPY)


def hqq_groups_of(width, size):
    """Columns of weights, some of one value, of none, and not finite."""
    rng = np.random.default_rng(width)
    values = (rng.standard_normal((64, width)) * size).astype(np.float32)
    values[:, ::5] = values[0, ::5]
    values[3, ::7], values[4, ::11] = 0, -0.0
    values[5, 3::50], values[6, 4::50] = np.nan, np.inf
    return values


@pytest.mark.parametrize("bits", [4, 8])
def test_the_kernel_of_hqq_makes_what_numpy_makes(bits):
    spec = HqqKernel(bits)
    kernel = prepared([spec]).kernel(spec)

    for width in (1, 127, 128, 129, 300):
        for size in (1e-30, 1e-8, 0.02, 0.3, 2, 40, 1e6):
            values = hqq_groups_of(width, size)
            for steps in (1, 3, STEPS):
                asked = values, bits, steps
                fast, slow = (hqq_groups.encode(*asked, one) for one in (kernel, None))
                assert [part.tobytes() for part in fast] == [part.tobytes() for part in slow]
                fast, slow = (hqq_groups.errors_of(*asked, one) for one in (kernel, None))
                assert np.array_equal(fast, slow, equal_nan=True)


@pytest.mark.parametrize(("size", "left"), [(0.02, 0), (0.5, 0), (40.0, 128)])
def test_numpy_has_to_do_the_groups_of_hqq_with_large_errors(size, left):
    kernel = prepared([HqqKernel(4)]).kernel(HqqKernel(4))
    values = hqq_groups_of(128, size)
    values[~np.isfinite(values)] = 0
    values[:, ::5] = values[:, 1::5][:, :26]  # not of one value

    found = kernel.measure(values, 4, np.empty((STEPS, 128)))

    assert np.count_nonzero(found) == left


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("cuts", [[0, 640, 704, 12800], [0, 6400, 12800]])
def test_hqq_is_the_same_wherever_it_is_cut(bits, cuts):
    shape, asked = (40, 320), ToHqq(Plain("F32"), bits, 3)
    values = (np.random.default_rng(2).standard_normal(12800) * 0.02).astype(np.float32)
    reader = laws.Reader(asked, shape, [values.tobytes()])
    for runtime in (NUMPY, prepared(asked.kernels())):
        whole = laws.join(
            [asked.convert(reader.read(range(12800)), shape, range(12800), runtime)]
        )
        pieces = [
            asked.convert(reader.read(part), shape, part, runtime) for part in laws.ranges(cuts)
        ]
        assert laws.join(pieces) == whole


@pytest.mark.parametrize("largest", [1e-3, 0.5, 3.0, 500.0, 0.0])
def test_fp8_scales_by_the_largest_value(largest):
    values = np.array([largest, -largest / 3, 0, largest / 1000], np.float32)
    scale = fp8.scale_of(fp8.largest_of(values))

    found = fp8.encode(values, scale)

    assert scale <= 416
    decoded = E4M3_VALUES[found] / scale
    assert np.allclose(decoded, values, rtol=0.07, atol=1e-5 + largest / 2**9)
