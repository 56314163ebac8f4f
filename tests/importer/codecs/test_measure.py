"""What quantizing costs: the same sums from kernel, numpy, and an independent computation."""

from __future__ import annotations

import contextlib
import math
from dataclasses import astuple
from fractions import Fraction

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs import kernels as kernels_module
from importer.codecs import measure, runtime
from importer.codecs.measure import Measure
from importer.codecs.metrics import Deviation
from importer.codecs.reference import floats
from importer.codecs.reference.minifloats import E4M3_VALUES
from importer.codecs.registry import codec_for
from importer.codecs.spec import QUANT_TYPES, Mode
from tests.importer.codecs import corpus, oracle

each_spec = pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
each_type = pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)
each_dtype = pytest.mark.parametrize("dtype", corpus.DTYPES)

ODD = (0, 1, 2, 3, 5, 63, 65, 127)
"""Groups: with those of 16 and 32, not a multiple of the lanes."""


def measured(spec, dtype, bits, cuts=(), parts=None):
    """Measure bits of whole groups, cut at numbers of groups; they are encoded if need be."""
    codec = codec_for(spec, dtype)
    source = np.ascontiguousarray(bits).reshape(-1, spec.group_size)
    if parts is None:
        parts = codec.encode(memoryview(source.reshape(-1)).cast("B")).parts
    found = Measure(codec)
    for start, end in zip((0, *cuts), (*cuts, len(source)), strict=True):
        rows = memoryview(np.ascontiguousarray(source[start:end]).reshape(-1)).cast("B")
        pieces = [
            bytes(part)[len(part) * start // len(source) : len(part) * end // len(source)]
            if len(source)
            else b""
            for part in map(memoryview, parts)
        ]
        found.add(rows, pieces)
    return found.result()


@pytest.fixture
def use(kernels, monkeypatch):
    """Call it to use kernels, or numpy."""

    def choose(*, ready):
        monkeypatch.setattr(runtime, "_ready", kernels if ready else {})
        monkeypatch.setattr(measure, "_ready", {})
        if ready:
            families = [codec_for(QUANT_TYPES["int4"], dtype) for dtype in corpus.DTYPES]
            assert measure.prepare(dict.fromkeys(families, 1 << 40), lambda: None) is None
            assert set(measure._ready) == {family.value_dtype for family in families}

    return choose


class Wrong:
    """A kernel that adds nothing."""

    @staticmethod
    def add(*_):
        pass


def test_a_kernel_that_differs_is_not_used(use, monkeypatch):
    use(ready=True)
    monkeypatch.setattr(measure, "_ready", {})
    monkeypatch.setattr(kernels_module, "load_sums", lambda: Wrong)
    codec = codec_for(QUANT_TYPES["int4"], "BF16")

    problem = measure.prepare({codec: 1 << 40}, lambda: None)

    assert problem == "ArithmeticError: the kernel that sums BF16 differs from numpy"
    assert measure._ready == {}
    bits = corpus.ordinary("BF16", 2, np.random.default_rng(1))
    assert measured(codec.spec, "BF16", bits).source > 0


def test_compiling_is_announced_once(use, monkeypatch):
    use(ready=True)
    monkeypatch.setattr(runtime, "_ready", {})
    monkeypatch.setattr(measure, "_ready", {})
    announced = []

    @contextlib.contextmanager
    def always(announce, _):
        announce()
        yield

    monkeypatch.setattr(kernels_module, "announced", always)
    codec = codec_for(QUANT_TYPES["int4"], "BF16")

    assert measure.prepare({codec: 1 << 40}, lambda: announced.append(1)) is None

    assert announced == [1]
    assert measure._ready.keys() == {"BF16"}


def test_little_work_is_not_worth_a_kernel(use):
    use(ready=False)
    codec = codec_for(QUANT_TYPES["int4"], "BF16")

    assert measure.prepare({codec: 1 << 20}, lambda: pytest.fail("compiled")) is None
    assert measure._ready == {}


def both(spec, dtype, bits, use, parts=None):
    """What kernel and numpy give."""
    found = []
    for ready in (True, False):
        use(ready=ready)
        found.append(measured(spec, dtype, bits, parts=parts))
    return found


@each_dtype
@each_spec
def test_kernel_and_numpy_agree_to_the_last_bit(spec, dtype, use):
    fast, slow = both(spec, dtype, corpus.everything(dtype, 7, 64), use)

    # As text: there NaN, where a sum is beyond all numbers, is equal to itself.
    assert repr(fast) == repr(slow)


@each_dtype
@each_type
def test_they_agree_for_any_number_of_groups(spec, dtype, use):
    bits = corpus.ordinary(dtype, 130, np.random.default_rng(5)).reshape(-1, spec.group_size)
    for groups in ODD:
        fast, slow = both(spec, dtype, bits[:groups], use)
        assert astuple(fast) == astuple(slow)
        assert fast.elements == groups * spec.group_size


@each_dtype
@each_type
def test_they_agree_on_parts_that_no_encoder_makes(spec, dtype, use):
    rng = np.random.default_rng(9)
    bits = corpus.ordinary(dtype, 40, rng)
    # One column of groups: parts of whole groups, flat.
    parts = [part.tobytes() for part in corpus.any_parts(spec, dtype, len(bits), rng)]

    fast, slow = both(spec, dtype, bits, use, parts)

    assert (fast.clipped, fast.zeroed) == (slow.clipped, slow.zeroed)
    assert fast.is_finite == slow.is_finite


@each_dtype
@each_type
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_measure(spec, dtype, bad, use):
    bits = corpus.ordinary(dtype, 9, np.random.default_rng(6))
    bits[4, 7] = floats.narrow(np.array([bad], np.float32), dtype)[0]

    fast, slow = both(spec, dtype, bits, use)

    assert not fast.is_finite
    assert not slow.is_finite
    assert (fast.clipped, fast.zeroed) == (slow.clipped, slow.zeroed)


@each_type
@given(cuts=st.lists(st.integers(0, 40), max_size=4))
def test_pieces_of_whole_lanes_give_the_same_sums(spec, cuts):
    bits = corpus.ordinary("BF16", 41, np.random.default_rng(8))
    unit = max(64 // spec.group_size, 1)
    places = sorted(cut * unit for cut in cuts)

    assert measured(spec, "BF16", bits, places) == measured(spec, "BF16", bits)


@pytest.mark.parametrize("ready", [True, False], ids=["kernel", "numpy"])
@each_dtype
@each_type
def test_the_sums_are_right(spec, dtype, ready, use):
    use(ready=ready)
    bits = corpus.ordinary(dtype, 6, np.random.default_rng(1))
    source, decoded = _by_mlx(spec, dtype, bits)

    found = measured(spec, dtype, bits)

    exact = [[Fraction(float(value)) for value in side] for side in (source, decoded)]
    pairs = list(zip(*exact, strict=True))
    sums = {
        "source": sum(x * x for x, _ in pairs),
        "decoded": sum(y * y for _, y in pairs),
        "product": sum(x * y for x, y in pairs),
        "error": sum((y - x) ** 2 for x, y in pairs),
    }
    for name, value in sums.items():
        assert getattr(found, name) == pytest.approx(float(value), rel=1e-12)
    assert found.largest == float(max(abs(y - x) for x, y in pairs))


@pytest.mark.parametrize("ready", [True, False], ids=["kernel", "numpy"])
@each_dtype
@each_spec
def test_what_is_counted_is_what_was_clipped_and_zeroed(spec, dtype, ready, use):
    use(ready=ready)
    rng = np.random.default_rng(2)
    bits = np.concatenate([corpus.ordinary(dtype, 5, rng), corpus.same_sizes(dtype, 5, rng)])
    source, decoded = _by_mlx(spec, dtype, bits)
    # Scales of another tensor: most groups are then clipped, or far too coarse.
    parts = oracle.quantize(spec, dtype, np.roll(bits, 1, axis=0))
    other = _values(dtype, oracle.dequantize(spec, dtype, parts, len(bits)))

    for found, values in (
        (measured(spec, dtype, bits), decoded),
        (measured(spec, dtype, bits, parts=parts), other),
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
    assert found.largest == np.abs(x - y).max()


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
