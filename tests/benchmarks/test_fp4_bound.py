"""The bound beside which searched scales of four bits are judged."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.reference import fp4_fitted
from importer.codecs.reference.minifloats import E2M1_VALUES
from importer.codecs.spec import QUANT_TYPES
from tests.benchmarks.fp4_bound import least_errors, scales_of


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4"])
def test_it_is_the_least_of_all_scales_and_all_codes(name):
    spec = QUANT_TYPES[name]
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.normal(-3, 3, (40, 1)))
    groups = rng.standard_t(3, (40, spec.group_size)) * sizes
    groups[0], groups[1, 1:] = 0, 0

    tried = (scales_of(spec)[:, None] * E2M1_VALUES.astype(float)).astype(float)
    each = [np.square(groups[:, :, None] - values).min(axis=2).sum(axis=1) for values in tried]

    assert least_errors(groups, spec).tolist() == pytest.approx(np.min(each, axis=0).tolist())


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4"])
def test_no_search_is_below_it(name):
    spec = QUANT_TYPES[name]
    values = np.random.default_rng(1).normal(0, 0.02, (500, spec.group_size)).astype(np.float32)

    codes, *parts = fp4_fitted.encode(values, "F32", spec)
    got = fp4_fitted.decode(codes, parts, "F32", spec)

    found = np.square(values.astype(float) - got).sum(axis=1)
    assert (found >= least_errors(values.astype(float), spec) * (1 - 1e-6)).all()
