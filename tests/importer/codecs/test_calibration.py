"""Scales that are searched for: what they gain, and what they never lose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.reference import floats
from importer.codecs.registry import codec_for, stored_type, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import (
    GROUP_SIZES,
    MLX,
    QUANT_TYPES,
    Method,
    Mode,
    calibrated,
    with_group_size,
)
from tests.importer.codecs import corpus

INTS = tuple(spec.name for spec in QUANT_TYPES.values() if spec.has_bias)
GAINS = {
    # dB on normal BF16 weights in groups of 64 (16 and 32): a tenth below what was measured.
    "int2": 1.7,
    "int3": 1.17,
    "int4": 0.88,
    "int5": 0.75,
    "int6": 0.76,
    "int8": 2.1,
    "nvfp4": 1.2,
    "mxfp4": 0.5,
}


def weights(dtype, groups, group_size, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((groups, group_size), np.float32) * np.float32(0.02)
    return floats.rounded(values, dtype)


def restored(values, spec, dtype="BF16"):
    """Values, scales and biases, as floats of 64 bits, of what a type makes of values."""
    codec = codec_for(spec, dtype)
    bits = np.ascontiguousarray(floats.narrow(values, dtype))
    with np.errstate(all="ignore"):
        parts = codec.encode(memoryview(bits).cast("B"), NUMPY).parts
    small = [
        floats.widen(np.frombuffer(part, floats.STORED[dtype]), dtype).astype(float)
        for part in parts[1:]
        if spec.has_bias
    ]
    # In F32, so that nothing but codes and scales is rounded.
    wide = codec_for(spec.stored, "F32")
    if spec.has_bias:
        exact = [part.astype(np.float32).tobytes() for part in small]
        parts = (parts[0], *exact)
    made = wide.decode(parts, values.shape, range(values.size), NUMPY)
    return np.frombuffer(made, np.float32).reshape(values.shape).astype(float), *small


def errors(values, spec, dtype="BF16"):
    """The sum of squared errors of each group."""
    return ((restored(values, spec, dtype)[0] - values) ** 2).sum(axis=1)


def grouped(name, group_size=64):
    spec = QUANT_TYPES[name]
    return with_group_size(spec, group_size) if spec.has_bias else spec


@pytest.mark.parametrize("name", GAINS)
def test_the_least_squared_error_gains_what_was_measured(name):
    spec = grouped(name)
    values = weights("BF16", 2048, spec.group_size)

    ours, theirs = (
        10 * np.log10((values.astype(float) ** 2).sum() / errors(values, one).sum())
        for one in (calibrated(spec, Method.MSE), spec)
    )

    assert ours - theirs > GAINS[name]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", corpus.DTYPES)
@pytest.mark.parametrize("name", [*INTS, "nvfp4", "mxfp4"])
@settings(max_examples=settings.default.max_examples // 10)
@given(seed=st.integers(0, 1 << 32))
def test_no_group_is_worse_than_without_a_search(name, dtype, symmetric, seed):
    if symmetric and name not in INTS:
        return
    spec = QUANT_TYPES[name]
    rng = np.random.default_rng(seed)
    kinds = (corpus.ordinary, corpus.any_bits, corpus.same_sizes)
    bits = np.concatenate([kind(dtype, 8, rng) for kind in kinds])
    values = floats.widen(bits, dtype).reshape(-1, spec.group_size)
    # Beyond that neither a square nor what MLX computes is a number.
    values = values[(np.abs(values) < 2.0**60).all(axis=1)]
    plain = calibrated(spec, Method.MINMAX, symmetric=symmetric)

    with np.errstate(all="ignore"):
        ours = errors(values, calibrated(spec, Method.MSE, symmetric=symmetric), dtype)
        theirs = errors(values, plain, dtype)

    # Sums of float32 are compared, in which errors below a millionth are not seen.
    size = (values.astype(float) ** 2).sum(axis=1)
    # The exponents of MLX's small floats wrap around.
    assert (ours <= theirs * (1 + 1e-5) + size * 1e-12)[np.isfinite(theirs)].all()


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("group_size", GROUP_SIZES[Mode.AFFINE])
@pytest.mark.parametrize("name", INTS)
def test_a_symmetric_bias_is_that_of_half_the_codes(name, group_size, method):
    spec = calibrated(grouped(name, group_size), method, symmetric=True)

    _, scale, bias = restored(weights("BF16", 64, group_size), spec)

    assert (bias == -(2 ** (spec.bits - 1)) * scale).all()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("group_size", GROUP_SIZES[Mode.AFFINE])
def test_percentiles_are_those_of_numpy(group_size, symmetric):
    values = weights("F32", 64, group_size)
    spec = calibrated(grouped("int8", group_size), Method.PERCENTILE, symmetric=symmetric)

    _, scale, bias = restored(values, spec, "F32")

    low, high = np.percentile(values.astype(float), [1, 99], axis=1)
    if symmetric:
        assert scale == pytest.approx(np.maximum(high / 127, -low / 128), rel=1e-5)
    else:
        assert bias == pytest.approx(low, rel=1e-5)
        assert scale == pytest.approx((high - low) / 255, rel=1e-5)


@pytest.mark.parametrize("name", INTS)
def test_groups_of_one_value_stay_exact(name):
    spec = calibrated(QUANT_TYPES[name], Method.MSE)
    values = np.repeat(np.float32([[0.0], [0.5], [-3.0], [2.0**-20]]), spec.group_size, axis=1)

    assert (restored(values, spec)[0] == values).all()


def test_what_has_no_choice_stays_as_it_is():
    mxfp8, nvfp4, int4 = (QUANT_TYPES[name] for name in ("mxfp8", "nvfp4", "int4"))

    assert calibrated(mxfp8, Method.MSE) == mxfp8
    assert calibrated(nvfp4, Method.PERCENTILE) == nvfp4
    assert calibrated(nvfp4, Method.MSE, symmetric=True) == calibrated(nvfp4, Method.MSE)
    assert calibrated(calibrated(int4, Method.MSE), Method.MINMAX) == int4
    assert int4.calibration == MLX


def test_a_tensor_that_has_the_type_already_keeps_its_codes():
    int4 = QUANT_TYPES["int4"]
    codec = codec_for(int4, "BF16")

    assert stored_type(codec) == int4
    kept = transcoder_for(calibrated(int4, Method.MSE), codec)
    assert kept == transcoder_for(None, codec)
