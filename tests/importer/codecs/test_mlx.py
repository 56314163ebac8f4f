"""Bit for bit what MLX makes on a CPU, for every type, group size, dtype and edge."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.importer.codecs import corpus

mx = pytest.importorskip("mlx.core")

from tests.importer.codecs import oracle, soak  # noqa: E402 - they import mlx

each_spec = pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
each_dtype = pytest.mark.parametrize("dtype", corpus.DTYPES)
SLICE = 64
"""Rows of each kind that are not edges."""


def test_mlx_is_the_version_that_is_promised():
    assert mx.__version__ == oracle.VERSION


@pytest.mark.usefixtures("without_kernels")
@each_dtype
@each_spec
def test_numpy_makes_what_mlx_makes(spec, dtype):
    assert not oracle.compare(spec, dtype, corpus.everything(dtype, 1, SLICE))


@pytest.mark.usefixtures("with_kernels")
@each_dtype
@each_spec
def test_kernels_make_what_mlx_makes(spec, dtype):
    assert not oracle.compare(spec, dtype, corpus.everything(dtype, 2, SLICE), decode=False)


@pytest.mark.usefixtures("without_kernels")
@each_spec
def test_experts_in_three_dimensions_are_rows(spec):
    bits = corpus.ordinary("BF16", 12, np.random.default_rng(3))
    rows = mx.array(bits).view(mx.bfloat16)
    mode = {"group_size": spec.group_size, "bits": spec.bits, "mode": spec.mode.value}

    flat = mx.quantize(rows, **mode)
    stacked = mx.quantize(rows.reshape(3, 4, -1), **mode)

    for one, other in zip(flat, stacked, strict=True):
        assert mx.array_equal(one, other.reshape(one.shape))
    assert not oracle.compare(spec, "BF16", bits)


@pytest.mark.slow
@pytest.mark.usefixtures("with_kernels")
def test_many_weights():
    weights = int(float(os.environ.get("INGOT_SOAK_WEIGHTS", "1e7")))

    assert [line for line in soak.run(weights) if line.difference] == []
