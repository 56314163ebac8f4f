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
from importer.codecs.uqff.f8q8 import F8Q8, F8Q8Encoder
from importer.codecs.uqff.groups import UqffGroups
from importer.codecs.uqff.hqq import Hqq
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
        # One by one: no other kernel is compiled for this.
        kernels = prepare(dict.fromkeys(codec.kernels(Operation.ENCODE), 1 << 40), lambda: None)
        if (kernels.problem or "").startswith("ModuleNotFoundError"):
            pytest.skip(kernels.problem)
        assert kernels.problem is None
        for values in ((0, 1), (0.5, 0.5), (-1, -1e-13), (1e-13, 0), (1, 2)):
            group = np.linspace(*values, group_size).astype(np.float32)
            rows = floats.narrow(group, dtype).view(np.uint8).data
            assert codec.encode(rows, kernels) == codec.encode(rows, NUMPY), (bits, values)


@pytest.mark.parametrize("largest", [1e-3, 0.5, 3.0, 500.0, 0.0])
def test_fp8_scales_by_the_largest_value(largest):
    values = np.array([largest, -largest / 3, 0, largest / 1000], np.float32)
    scale = fp8.scale_of(fp8.largest_of(values))

    found = fp8.encode(values, scale)

    assert scale <= 416
    decoded = E4M3_VALUES[found] / scale
    assert np.allclose(decoded, values, rtol=0.07, atol=1e-5 + largest / 2**9)
