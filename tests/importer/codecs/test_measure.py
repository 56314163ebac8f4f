"""What quantizing costs: the same sums from kernel, numpy, and an independent computation."""

from __future__ import annotations

import math
from dataclasses import astuple
from fractions import Fraction

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs import measure
from importer.codecs.base import Operation
from importer.codecs.measure import Measure, SumKernel
from importer.codecs.metrics import Deviation
from importer.codecs.plain import Plain
from importer.codecs.reference import floats
from importer.codecs.reference.minifloats import E4M3_VALUES
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY, prepare
from importer.codecs.spec import QUANT_TYPES, Mode
from tests.importer.codecs import corpus, laws, oracle

each_spec = pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
each_type = pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)
each_dtype = pytest.mark.parametrize("dtype", corpus.DTYPES)

ODD = (0, 1, 2, 3, 5, 63, 65, 127)
"""Groups: with those of 16 and 32, not a multiple of the lanes."""


def measured(spec, dtype, bits, runtime=NUMPY, cuts=()):
    """Encode bits of whole groups, and measure; they are cut at numbers of groups."""
    codec = codec_for(spec, dtype)
    source = np.ascontiguousarray(bits)
    parts = codec.encode(memoryview(source.reshape(-1)).cast("B"), NUMPY).parts
    return measured_parts(codec, source, parts, runtime, cuts)


def measured_parts(codec, bits, parts, runtime=NUMPY, cuts=()):
    """Measure parts against the bits that they are said to be made of."""
    size = codec.spec.group_size
    source = np.ascontiguousarray(bits).reshape(-1, size)
    decoder, rows = Plain(codec.dtype), memoryview(source.reshape(-1)).cast("B")
    readers = [
        laws.Reader(subject, source.shape, arrays)
        for subject, arrays in ((decoder, [rows]), (codec, [bytes(part) for part in parts]))
    ]
    found = Measure(decoder, codec, runtime)
    for elements in laws.ranges([cut * size for cut in (0, *cuts, len(source))]):
        pieces = (reader.read(elements) for reader in readers)
        found.add(*pieces, source.shape, elements)
    return found.result()


class Wrong:
    """A kernel that adds nothing."""

    @staticmethod
    def add(*_):
        pass


def test_a_kernel_that_differs_is_not_used(monkeypatch):
    monkeypatch.setattr(SumKernel, "load", lambda _: Wrong)
    kernel = SumKernel("BF16")

    runtime = prepare({kernel: 1 << 40}, lambda: None)

    assert runtime.problem == "ArithmeticError: the kernel that sums BF16 differs from numpy"
    assert runtime.kernel(kernel) is None
    bits = corpus.ordinary("BF16", 2, np.random.default_rng(1))
    assert measured(QUANT_TYPES["int4"], "BF16", bits, runtime).sum_x2 > 0


@each_dtype
def test_measuring_needs_a_kernel_that_decodes_and_one_that_sums(dtype):
    codec = codec_for(QUANT_TYPES["int4"], dtype)

    assert measure.kernels(codec) == (*codec.kernels(Operation.DECODE), SumKernel(dtype))


def both(spec, dtype, bits, kernels):
    """What kernel and numpy give."""
    assert kernels.kernel(SumKernel(dtype)) is not None
    return [measured(spec, dtype, bits, way) for way in (kernels, NUMPY)]


@each_dtype
@each_spec
def test_kernel_and_numpy_agree_to_the_last_bit(spec, dtype, kernels):
    fast, slow = both(spec, dtype, corpus.everything(dtype, 7, 64), kernels)

    # As text: there NaN, where a sum is beyond all numbers, is equal to itself.
    assert repr(fast) == repr(slow)


@each_dtype
@each_type
def test_they_agree_for_any_number_of_groups(spec, dtype, kernels):
    bits = corpus.ordinary(dtype, 130, np.random.default_rng(5)).reshape(-1, spec.group_size)
    for groups in ODD:
        fast, slow = both(spec, dtype, bits[:groups], kernels)
        assert astuple(fast) == astuple(slow)
        assert fast.elements == groups * spec.group_size


@each_dtype
@each_type
def test_they_agree_on_parts_that_no_encoder_makes(spec, dtype, kernels):
    rng = np.random.default_rng(9)
    bits = corpus.ordinary(dtype, 40, rng)
    # One column of groups: parts of whole groups, flat.
    parts = [part.tobytes() for part in corpus.any_parts(spec, dtype, len(bits), rng)]

    codec = codec_for(spec, dtype)
    fast, slow = (measured_parts(codec, bits, parts, way) for way in (kernels, NUMPY))

    assert (fast.clipped, fast.zeroed) == (slow.clipped, slow.zeroed)
    assert fast.is_finite == slow.is_finite


@each_dtype
@each_type
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_measure(spec, dtype, bad, kernels):
    bits = corpus.ordinary(dtype, 9, np.random.default_rng(6))
    bits[4, 7] = floats.narrow(np.array([bad], np.float32), dtype)[0]

    fast, slow = both(spec, dtype, bits, kernels)

    assert not fast.is_finite
    assert not slow.is_finite
    assert (fast.clipped, fast.zeroed) == (slow.clipped, slow.zeroed)


@each_type
@given(cuts=st.lists(st.integers(0, 40), max_size=4))
def test_pieces_of_whole_lanes_give_the_same_sums(spec, each_runtime, cuts):
    bits = corpus.ordinary("BF16", 41, np.random.default_rng(8))
    unit = max(64 // spec.group_size, 1)
    places = sorted(cut * unit for cut in cuts)

    whole = measured(spec, "BF16", bits, each_runtime)
    assert measured(spec, "BF16", bits, each_runtime, places) == whole


@each_dtype
@each_type
def test_the_sums_are_right(spec, dtype, each_runtime):
    bits = corpus.ordinary(dtype, 6, np.random.default_rng(1))
    source, decoded = _by_mlx(spec, dtype, bits)

    found = measured(spec, dtype, bits, each_runtime)

    exact = [[Fraction(float(value)) for value in side] for side in (source, decoded)]
    pairs = list(zip(*exact, strict=True))
    sums = {
        "sum_x2": sum(x * x for x, _ in pairs),
        "sum_y2": sum(y * y for _, y in pairs),
        "sum_xy": sum(x * y for x, y in pairs),
        "sum_err2": sum((y - x) ** 2 for x, y in pairs),
    }
    for name, value in sums.items():
        assert getattr(found, name) == pytest.approx(float(value), rel=1e-12)
    assert found.max_err == float(max(abs(y - x) for x, y in pairs))


@each_dtype
@each_spec
def test_what_is_counted_is_what_was_clipped_and_zeroed(spec, dtype, each_runtime):
    rng = np.random.default_rng(2)
    bits = np.concatenate([corpus.ordinary(dtype, 5, rng), corpus.same_sizes(dtype, 5, rng)])
    source, decoded = _by_mlx(spec, dtype, bits)
    # Scales of another tensor: most groups are then clipped, or far too coarse.
    parts = oracle.quantize(spec, dtype, np.roll(bits, 1, axis=0))
    other = _values(dtype, oracle.dequantize(spec, dtype, parts, len(bits)))

    for found, values in (
        (measured(spec, dtype, bits, each_runtime), decoded),
        (measured_parts(codec_for(spec, dtype), bits, parts, each_runtime), other),
    ):
        own = parts if values is other else oracle.quantize(spec, dtype, bits)
        expected = [
            _is_clipped(spec, dtype, own, group, x)
            for group, row in enumerate(source.reshape(-1, spec.group_size))
            for x in row
        ]
        assert found.clipped == sum(expected)
        zeroed = sum(x != 0 and y == 0 for x, y in zip(source, values, strict=True))
        assert found.zeroed == zeroed


def _is_clipped(spec, dtype, parts, group, x):
    """One value against the range of its group, in exact arithmetic."""
    kinds = [np.uint8] if spec.mode is not Mode.AFFINE else [floats.STORED[dtype]] * 2
    small = [np.frombuffer(p, k)[group] for p, k in zip(parts[1:], kinds, strict=True)]
    x = Fraction(float(x))
    match spec.mode:
        case Mode.AFFINE:
            scale, bias = (
                np.float32(floats.widen(np.array([part]), dtype)[0]) for part in small
            )
            end = bias + scale * np.float32((1 << spec.bits) - 1)
            half = np.float32(abs(scale) / 2)
            return (
                not Fraction(float(min(bias, end) - half))
                <= x
                <= Fraction(float(max(bias, end) + half))
            )
        case Mode.NVFP4:
            return abs(x) > 7 * Fraction(float(E4M3_VALUES[small[0]]))
        case Mode.MXFP4:
            return abs(x) > 7 * Fraction(2) ** (int(small[0]) - 127)
        case _:
            return abs(x) > 464 * Fraction(2) ** (int(small[0]) - 127)


@each_type
def test_the_measures_are_those_of_the_field(spec):
    bits = corpus.ordinary("F32", 16, np.random.default_rng(3))
    weights = mx.array(bits.view(np.float32))
    how = oracle.mode(spec)
    parts = mx.quantize(weights, **how, stream=mx.cpu)
    there = mx.dequantize(*parts, **how, dtype=mx.float32, stream=mx.cpu)
    x, y = (np.array(side, np.float64).reshape(-1) for side in (weights, there))

    found = measured(spec, "F32", bits)

    error = np.mean((x - y) ** 2)
    assert found.rmse == pytest.approx(np.sqrt(error / np.mean(x**2)), rel=1e-12)
    assert found.sqnr == pytest.approx(10 * np.log10(np.mean(x**2) / error), rel=1e-12)
    cosine = x @ y / (np.linalg.norm(x) * np.linalg.norm(y))
    assert found.cosine == pytest.approx(cosine, rel=1e-12)
    assert found.max_err == np.abs(x - y).max()


@each_dtype
def test_a_source_that_is_quantized_itself_is_decoded_first(dtype, each_runtime):
    source, codec = (codec_for(QUANT_TYPES[name], dtype) for name in ("int8", "int4"))
    bits = corpus.ordinary(dtype, 9, np.random.default_rng(12))
    arrays = source.encode(bits.tobytes(), NUMPY).parts
    elements = range(bits.size)
    values = source.decode(arrays, bits.shape, elements, NUMPY)
    parts = codec.encode(values, NUMPY).parts
    found = Measure(source, codec, each_runtime)

    found.add(arrays, parts, bits.shape, elements)

    values = np.frombuffer(values, floats.STORED[dtype])
    assert found.result() == measured(codec.spec, dtype, values, each_runtime)


def test_a_type_without_groups_clips_nothing(each_runtime):
    class Same(Plain):
        """A codec that keeps its values, and says nothing of scales."""

        dtype = property(lambda self: self.value_dtype)

    bits = corpus.ordinary("F32", 2, np.random.default_rng(13))
    found = Measure(Plain("F32"), Same("F32"), each_runtime)

    found.add([bits.tobytes()], [bits.tobytes()], bits.shape, range(bits.size))

    assert (found.result().clipped, found.result().sqnr) == (0, math.inf)


def test_no_elements_have_no_error():
    found = measured(QUANT_TYPES["int4"], "BF16", np.zeros((0, 32), np.uint16))

    assert found == Deviation(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
    assert (found.rmse, found.sqnr, found.cosine) == (0.0, math.inf, 1.0)


def test_a_tensor_of_zeros_that_became_something_is_all_noise():
    found = Deviation(1, 0.0, 1.0, 0.0, 1.0, 1.0, 0, 0)

    assert (found.sqnr, found.cosine) == (-math.inf, 1.0)


def test_the_total_is_that_of_the_joined_tensors():
    spec = QUANT_TYPES["int4"]
    bits = corpus.ordinary("BF16", 32, np.random.default_rng(4))
    halves = [measured(spec, "BF16", half) for half in (bits[:16], bits[16:])]
    whole = measured(spec, "BF16", bits)

    total = Deviation.total(halves)

    assert astuple(total) == pytest.approx(astuple(whole), rel=1e-13)
    assert Deviation.total([]).elements == 0


def _by_mlx(spec, dtype, bits):
    parts = oracle.quantize(spec, dtype, bits)
    values = oracle.dequantize(spec, dtype, parts, len(bits))
    return floats.widen(bits, dtype).reshape(-1), _values(dtype, values)


def _values(dtype, data):
    return floats.widen(np.frombuffer(data, floats.STORED[dtype]), dtype)
