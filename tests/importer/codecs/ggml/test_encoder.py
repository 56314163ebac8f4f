"""Values become the blocks that libggml and gguf-py make of them."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.base import Operation, Part
from importer.codecs.ggml.encoder import QUANTIZED, quantizer
from importer.codecs.ggml.types import NAMED
from importer.codecs.runtime import NUMPY
from store.errors import UnsupportedError
from tests.importer.codecs import ggml_edges

FIXTURE = json.loads(ggml_edges.FIXTURE.read_text())
ROWS = ggml_edges.rows()
IMPORTANCE = {"": None, **ggml_edges.importances()}
BY_GGUF_PY = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "TQ1_0", "TQ2_0", "MXFP4")
WEIGHTED = [name for name in QUANTIZED if ggml_edges.takes_importance(name)]

each_type = pytest.mark.parametrize("name", QUANTIZED)
each_weighted = pytest.mark.parametrize("name", WEIGHTED)
each_way = pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name in QUANTIZED for way in FIXTURE["types"][name]]
)


def made(name, values, importance=None, runtime=NUMPY, dtype="F32"):
    """Blocks of values of shape (rows, columns), and how many values they do not hold."""
    weights = None if importance is None else importance.tobytes()
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    encoded = quantizer(name, dtype, weights).encode(data, runtime)
    (blocks,) = encoded.parts
    kind = NAMED[name]
    return np.frombuffer(blocks, np.uint8).reshape(-1, kind.nbytes), encoded.nonfinite


def test_the_values_are_those_that_libggml_had():
    assert {kind: ggml_edges.digest(rows) for kind, rows in ROWS.items()} == FIXTURE["values"]


@each_way
def test_edges_become_the_blocks_of_libggml(name, way, each_runtime):
    weights = IMPORTANCE[way]

    found = {
        kind: ggml_edges.digest(made(name, rows, weights, each_runtime)[0])
        for kind, rows in ROWS.items()
    }

    assert found == FIXTURE["types"][name][way]


@pytest.mark.parametrize("name", BY_GGUF_PY)
def test_ordinary_values_become_the_blocks_of_gguf_py(name, each_runtime):
    values = np.random.default_rng(1).standard_normal((64, 1024), np.float32)

    theirs = gguf.quants.quantize(values, gguf.GGMLQuantizationType[name])

    assert np.array_equal(made(name, values, None, each_runtime)[0].reshape(64, -1), theirs)


@each_type
def test_values_of_other_dtypes_are_widened(name, each_runtime):
    values = np.random.default_rng(2).standard_normal((3, 512), np.float32)
    halves = values.astype(np.float16)
    upper = (values.view(np.uint32) >> 16).astype(np.uint16)
    wide = (upper.astype(np.uint32) << 16).view(np.float32)

    for stored, dtype, same in (
        (halves, "F16", halves.astype(np.float32)),
        (upper, "BF16", wide),
    ):
        found, _ = made(name, stored, None, each_runtime, dtype)
        assert np.array_equal(found, made(name, same)[0])


@each_type
@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_counted_and_count_as_zero(name, wrong, each_runtime):
    values = np.random.default_rng(3).standard_normal((4, 256), np.float32)
    values[2, [5, 77]] = wrong
    with_zeros = np.where(np.isfinite(values), values, np.float32(0))

    found, lost = made(name, values, None, each_runtime)

    assert lost == 2
    assert np.array_equal(found, made(name, with_zeros)[0])


@pytest.mark.parametrize("name", sorted({*QUANTIZED} - {"MXFP4"}))
def test_values_of_blocks_whose_scale_is_too_large_are_counted(name, each_runtime):
    values = np.random.default_rng(4).standard_normal((4, 512), np.float32)
    values[1, 300] = 1e11

    _, lost = made(name, values, None, each_runtime)

    assert lost == NAMED[name].elements


def test_a_power_of_two_that_is_none_is_counted(each_runtime):
    # libggml makes 255 of them, and refuses to read that.
    values = np.full((2, 32), 2.0**-126, np.float32)
    values[0] = 1

    assert made("MXFP4", values, None, each_runtime)[1] == 32


@each_weighted
def test_importance_changes_blocks_and_rows_stay_apart(name, each_runtime):
    values = np.random.default_rng(5).standard_normal((40, 512), np.float32)
    weights = IMPORTANCE["even"]

    whole, _ = made(name, values, weights, each_runtime)

    assert not np.array_equal(whole, made(name, values)[0])
    pieces = [made(name, row[None], weights, each_runtime)[0] for row in values]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_a_quantizer_says_what_it_makes():
    weighted = quantizer("Q4_K", "BF16", bytes(4 * 512))

    assert str(weighted) == "Q4_K"
    assert weighted.dtype == "BF16"
    assert not weighted.is_lossless
    assert weighted.parts((3, 4, 512)) == (Part("", "U8", (3, 4, 288)),)
    assert weighted.unit((3, 4, 512)) == 512
    assert quantizer("Q4_K", "BF16").unit((3, 4, 512)) == 256
    assert weighted.kernels(Operation.DECODE) == ()


@pytest.mark.parametrize("name", sorted({*QUANTIZED} - {*WEIGHTED}))
def test_types_without_a_weighted_form_leave_importance_out(name):
    assert quantizer(name, "F32", bytes(4 * 512)) == quantizer(name, "F32")


def test_importance_is_for_every_column():
    with pytest.raises(AssertionError, match="importance of 4 bytes for 512 columns"):
        quantizer("Q4_K", "F32", b"\0" * 4).parts((1, 512))


@pytest.mark.parametrize("name", ["F16", "Q8_K", "IQ2_XXS", "q4_0"])
def test_other_types_are_refused(name):
    with pytest.raises(UnsupportedError, match=f"quantizing to {name}: expected one of Q8_0"):
        quantizer(name, "F32")


def test_other_dtypes_are_refused():
    with pytest.raises(UnsupportedError, match="quantizing I32 to Q8_0: expected BF16"):
        quantizer("Q8_0", "I32")


@each_way
def test_only_rows_of_unusual_sizes_are_left_to_numpy(name, way, kernels):
    weights = IMPORTANCE[way]
    kind = NAMED[name]
    (spec,) = quantizer(name, "F32", None if weights is None else b"").kernels(Operation.ENCODE)
    values = np.random.default_rng(6).standard_normal((20, 512), np.float32)
    values[1] = 0
    values[2] = -3
    values[5, 7] = np.nan
    rows = values if weights is not None else values.reshape(-1, kind.elements)
    blocks = np.empty((len(rows), kind.row_nbytes(rows.shape[1])), np.uint8)

    left = kernels.kernel(spec).encode(name, rows.view(np.uint32), "F32", weights, blocks)

    assert np.flatnonzero(left).tolist() == np.flatnonzero(np.isnan(rows).any(axis=1)).tolist()


@each_type
def test_any_number_of_blocks_is_taken(name, kernels):
    values = np.random.default_rng(7).standard_normal((40, NAMED[name].elements), np.float32)

    for count in (0, 1, 2, 15, 16, 17, 33, 40):
        fast, slow = (made(name, values[:count], None, way)[0] for way in (kernels, NUMPY))
        assert np.array_equal(fast, slow)


def test_a_kernel_that_differs_is_noticed(kernels):
    (spec,) = quantizer("Q6_K", "BF16").kernels(Operation.ENCODE)
    sound = kernels.kernel(spec)

    class Wrong:
        def encode(self, name, source, dtype, importance, blocks):
            left = sound.encode(name, source, dtype, importance, blocks)
            blocks[-1, -1] ^= 1
            return left

    spec.check(sound)
    with pytest.raises(ArithmeticError, match="quantizes to Q6_K differs"):
        spec.check(Wrong())


@each_weighted
@settings(max_examples=settings.default.max_examples // 5)
@given(
    seed=st.integers(0, 1 << 32),
    sides=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    size=st.integers(-30, 30),
)
def test_kernels_and_numpy_weigh_alike(name, kernels, seed, sides, size):
    rng, (rows, blocks) = np.random.default_rng(seed), sides
    shape = (rows, blocks * NAMED[name].elements)
    values = (rng.standard_t(2, shape) * 2.0**size).astype(np.float32)
    values[rng.random(shape) < rng.random() / 2] = 0
    weights = (rng.random(shape[1]) ** 4 * 10.0 ** rng.integers(-6, 6)).astype(np.float32)

    fast, slow = (made(name, values, weights, way) for way in (kernels, NUMPY))

    assert np.array_equal(fast[0], slow[0])
    assert fast[1] == slow[1]
