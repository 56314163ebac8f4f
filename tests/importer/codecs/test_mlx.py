"""Bit for bit what MLX makes on a CPU, for every type, group size, dtype and edge."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES
from tests.importer.codecs import corpus

mx = pytest.importorskip("mlx.core")

from tests.importer.codecs import oracle  # noqa: E402 - it imports mlx

each_spec = pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
each_dtype = pytest.mark.parametrize("dtype", corpus.DTYPES)
SLICE = 64
"""Rows of each kind that are not edges."""


def test_mlx_is_the_version_that_is_promised():
    assert mx.__version__ == oracle.VERSION


@each_dtype
@each_spec
def test_numpy_makes_what_mlx_makes(spec, dtype):
    assert not oracle.compare(spec, dtype, corpus.everything(dtype, 1, SLICE), NUMPY)


@each_dtype
@each_spec
def test_kernels_make_what_mlx_makes(spec, dtype, kernels):
    assert not oracle.compare(spec, dtype, corpus.everything(dtype, 2, SLICE), kernels)


@each_spec
def test_experts_in_three_dimensions_are_rows(spec):
    bits = corpus.ordinary("BF16", 12, np.random.default_rng(3))
    rows = mx.array(bits).view(mx.bfloat16)

    flat = mx.quantize(rows, **oracle.mode(spec))
    stacked = mx.quantize(rows.reshape(3, 4, -1), **oracle.mode(spec))

    for one, other in zip(flat, stacked, strict=True):
        assert mx.array_equal(one, other.reshape(one.shape))
    assert not oracle.compare(spec, "BF16", bits, NUMPY)


@pytest.mark.parametrize("dtype", corpus.CONVERTED)
@pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)
def test_other_dtypes_are_converted_as_mlx_does(spec, dtype, each_runtime):
    rows = corpus.any_source(dtype, SLICE, np.random.default_rng(4))

    assert not oracle.compare(spec, dtype, rows, each_runtime)


@each_dtype
@each_spec
def test_any_parts_are_decoded_as_mlx_does(spec, dtype, each_runtime):
    parts = corpus.any_parts(spec, dtype, 4 * SLICE, np.random.default_rng(5))

    assert oracle.compare_decoded(spec, dtype, parts, each_runtime) == 0
