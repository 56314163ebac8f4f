"""The bound of each type: whatever is rounded to the nearest as MLX does it stays below."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.measure import Measure
from importer.codecs.plain import Plain
from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, Mode
from importer.verification.error_bounds import bound
from tests.importer.codecs import corpus

each_spec = pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
each_type = pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)
each_dtype = pytest.mark.parametrize("dtype", corpus.DTYPES)

_WRAPS = 2.0**-110
"""Below, MLX's exponents of mxfp4 and mxfp8 wrap around, and what it writes is nonsense."""


def measured(spec, dtype, bits):
    """What encoding leaves of bits, to the bit as MLX does it (tests/importer/codecs)."""
    codec = codec_for(spec, dtype)
    rows = np.ascontiguousarray(bits)
    measure = Measure(Plain(dtype), codec, NUMPY)
    data = memoryview(rows.reshape(-1)).cast("B")
    measure.add([data], codec.encode(data, NUMPY).parts, rows.shape, range(rows.size))
    return measure.result()


def without_nonsense(spec, dtype, bits):
    """Groups that MLX cannot hold in a type, taken out."""
    groups = bits.reshape(-1, spec.group_size)
    if spec.mode in {Mode.MXFP4, Mode.MXFP8}:
        largest = np.abs(floats.widen(groups, dtype)).max(axis=1)
        groups = groups[(largest == 0) | (largest > _WRAPS)]
    return groups


def excess(spec, dtype, bits):
    """The error of each group in units of its bound: the worst, or 0 where none is finite."""
    worst = 0.0
    for group in without_nonsense(spec, dtype, bits):
        found = measured(spec, dtype, group)
        if found.is_finite and found.sum_err2:
            worst = max(worst, found.rmse / bound(spec, dtype, found))
    return worst


@each_dtype
@each_spec
def test_no_edge_case_exceeds_the_bound(spec, dtype):
    rng = np.random.default_rng(1)
    rows = corpus.edges(dtype, rng)
    rows = rows[rng.permutation(len(rows))[:12]]
    others = [kind(dtype, 2, rng) for kind in (corpus.ordinary, corpus.same_sizes)]

    assert excess(spec, dtype, np.concatenate([rows, *others])) <= 1


@st.composite
def groups(draw, spec, dtype):
    """A group as an adversary would write it."""
    size = spec.group_size
    largest = draw(st.floats(0.5, 1)) * 2.0 ** draw(st.integers(-30, 14))
    kind = draw(st.sampled_from(["outlier", "two", "constant", "ramp", "steps", "any"]))
    small = draw(st.floats(-1, 1))
    values = np.full(size, largest)
    match kind:
        case "outlier":
            values[1:] = largest * small
        case "two":
            values[1:] = largest * small / (1 << spec.bits)
            values[size // 2] = -largest * draw(st.floats(0, 1))
        case "ramp":
            values = np.linspace(largest * small, largest, size)
        case "steps":
            # In the middle between two codes, for some number of steps.
            steps = draw(st.integers(1, 2 << spec.bits))
            values = largest * (np.arange(size) % steps + 0.5) / steps
            values[0] = largest
            values[1] = -largest * abs(small)
        case "any":
            values *= draw(
                st.lists(st.floats(-1, 1), min_size=size, max_size=size).map(np.array)
            )
    values *= draw(st.sampled_from([1, -1]))
    return floats.narrow(values.astype(np.float32), dtype)


@each_dtype
@each_type
@given(drawn=st.data())
def test_no_group_of_an_adversary_exceeds_the_bound(spec, dtype, drawn):
    bits = drawn.draw(groups(spec, dtype))

    assert excess(spec, dtype, bits) <= 1


@each_dtype
@each_type
def test_the_bound_holds_for_whole_tensors(spec, dtype):
    bits = without_nonsense(spec, dtype, corpus.edges(dtype, np.random.default_rng(2)))
    codec = codec_for(spec, dtype)
    parts = codec.encode(memoryview(bits.reshape(-1)).cast("B"), NUMPY).parts
    decoded = codec.decode(parts, bits.shape, range(bits.size), NUMPY)
    values = floats.widen(np.frombuffer(decoded, floats.STORED[dtype]), dtype)
    finite = np.isfinite(values.reshape(bits.shape)).all(axis=1)
    found = measured(spec, dtype, bits[finite])

    assert found.elements > 1000
    assert found.rmse <= bound(spec, dtype, found)


@pytest.mark.parametrize("name", ["int4", "int5", "int6", "int8", "mxfp8"])
def test_what_lost_everything_exceeds_the_bound(name):
    bits = corpus.ordinary("BF16", 64, np.random.default_rng(3))
    spec = QUANT_TYPES[name]

    assert bound(spec, "BF16", measured(spec, "BF16", bits)) < 1


@pytest.mark.parametrize("name", QUANT_TYPES)
def test_nothing_to_lose_has_a_bound(name):
    found = measured(QUANT_TYPES[name], "BF16", np.zeros((2, 128), np.uint16))

    assert found.rmse == 0.0
    assert not math.isnan(bound(QUANT_TYPES[name], "BF16", found))
