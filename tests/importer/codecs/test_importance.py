"""Searches for scales that go by the importance of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs import arithmetic
from importer.codecs.base import Operation
from importer.codecs.importance import Importance, weighs, weighted
from importer.codecs.plain import Plain
from importer.codecs.reference import floats
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import MLX, QUANT_TYPES, Method, Mode, calibrated
from tests.importer.codecs.test_calibration import restored, weights

NAMES = [name for name, spec in QUANT_TYPES.items() if spec.mode is not Mode.MXFP8]
ROWS = 24


def fitted(name, *, symmetric=False):
    return calibrated(QUANT_TYPES[name], Method.MSE, symmetric=symmetric)


def important(columns, seed=0, spread=2.0):
    """Mean squares as layers have them: a few columns count a hundred times as much."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.standard_normal(columns) * spread).astype(np.float32)


def encoded(codec, values, kernel=None):
    bits = np.ascontiguousarray(floats.narrow(values, codec.dtype))
    made = arithmetic.encode(codec, memoryview(bits).cast("B"), kernel, codec.importance)
    return [bytes(part) for part in made.parts]


def weighted_error(values, spec, importance):
    """The sum over each group of squared errors, each times its weight."""
    codec = replace(
        codec_for(spec, "BF16"), importance=None if spec == spec.stored else importance
    )
    bits = np.ascontiguousarray(floats.narrow(values, "BF16"))
    parts = codec.encode(memoryview(bits).cast("B"), NUMPY).parts
    if spec.has_bias:
        exact = [
            floats.widen(np.frombuffer(part, "<u2"), "BF16").tobytes() for part in parts[1:]
        ]
        parts = (parts[0], *exact)
    made = codec_for(spec.stored, "F32").decode(parts, values.shape, range(values.size), NUMPY)
    found = np.frombuffer(made, np.float32).reshape(values.shape).astype(float)
    numbers = np.frombuffer(importance.values, "<f4").astype(float)
    return ((found - values) ** 2 * numbers).reshape(-1, spec.group_size).sum(axis=1)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("name", NAMES)
def test_columns_that_count_alike_change_nothing(name, dtype, symmetric):
    codec = codec_for(fitted(name, symmetric=symmetric), dtype)
    values = weights(dtype, ROWS, 3 * codec.spec.group_size)
    alike = Importance(np.full(values.shape[1], 3.7, np.float32).tobytes())

    assert encoded(replace(codec, importance=alike), values) == encoded(codec, values)


@pytest.mark.parametrize(
    ("name", "dtype", "symmetric"),
    [
        # Compiling each takes seconds.
        ("int3", "F32", False),
        ("int4", "BF16", False),
        ("int8", "F16", True),
        ("nvfp4", "BF16", False),
        ("mxfp4", "F32", False),
    ],
)
def test_the_kernel_gives_the_bits_of_numpy_however_rows_are_cut(name, dtype, symmetric):
    codec = codec_for(fitted(name, symmetric=symmetric), dtype)
    values = weights(dtype, ROWS, 5 * codec.spec.group_size)
    numbers = important(values.shape[1])
    numbers[: codec.spec.group_size] = 0
    codec = replace(codec, importance=Importance(numbers.tobytes()))
    (spec,) = codec.kernels(Operation.ENCODE)
    kernel = spec.load()
    spec.check(kernel)

    whole = encoded(codec, values)

    assert encoded(codec, values, kernel) == whole
    pieces = [encoded(codec, values[i:j], kernel) for i, j in ((0, 1), (1, 9), (9, ROWS))]
    assert [b"".join(parts) for parts in zip(*pieces, strict=True)] == whole


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=settings.default.max_examples // 5)
@given(seed=st.integers(0, 1 << 32), spread=st.sampled_from([0.5, 2, 6]))
def test_no_group_is_worse_than_without_a_search(name, seed, spread):
    spec = fitted(name)
    values = weights("BF16", ROWS, 3 * spec.group_size, seed)
    importance = Importance(important(values.shape[1], seed, spread).tobytes())

    ours = weighted_error(values, spec, importance)
    theirs = weighted_error(values, spec.stored, importance)

    assert (ours <= theirs * (1 + 1e-5)).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_counts_gets_less_error_than_a_search_for_all_columns_gives(name):
    spec = fitted(name)
    values = weights("BF16", 512, 4 * spec.group_size)
    importance = Importance(important(values.shape[1]).tobytes())
    alike = (restored(values.reshape(-1, spec.group_size), spec)[0]).reshape(values.shape)
    numbers = np.frombuffer(importance.values, "<f4").astype(float)

    ours = weighted_error(values, spec, importance).sum()

    # 0.6 of the error at int3 and int4; exponents of MXFP4 leave little to choose.
    assert ours < ((alike - values) ** 2 * numbers).sum() * (0.99 if name == "mxfp4" else 0.9)


def test_only_what_is_searched_for_goes_by_importance():
    plain, int4 = Plain("BF16"), QUANT_TYPES["int4"]

    assert weighs(transcoder_for(fitted("int4"), plain))
    assert not weighs(transcoder_for(calibrated(int4, Method.PERCENTILE), plain))
    assert not weighs(transcoder_for(int4, plain))
    assert not weighs(transcoder_for(None, plain))
    assert int4.calibration == MLX


def test_two_importances_are_two_transcoders_that_read_alike():
    plain = transcoder_for(fitted("int4"), Plain("BF16"))
    one, two = (Importance(important(64, seed).tobytes()) for seed in range(2))

    assert repr(weighted(plain, [one])) != repr(weighted(plain, [two]))
    assert weighted(plain, [one]) == weighted(plain, [Importance(one.values)])
    assert weighted(plain, [one]) != weighted(plain, [two])
    assert "..." not in repr(weighted(plain, [one]))


def test_a_unit_is_a_row_where_columns_differ():
    plain = transcoder_for(fitted("int4"), Plain("BF16"))

    assert plain.unit((4, 96)) == 32
    assert weighted(plain, [Importance(important(96).tobytes())]).unit((4, 96)) == 96
