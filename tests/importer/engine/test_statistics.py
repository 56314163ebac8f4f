"""Statistics of a tensor: as numpy computes them of the whole, in pieces of it."""

from __future__ import annotations

import numpy as np
import pytest

import importer.engine.statistics as engine
from importer.codecs.reference import floats
from importer.codecs.spec import QUANT_TYPES
from importer.codecs.statistics import BINS, values_of
from importer.engine.statistics import statistics_of
from importer.recipes.options import parse_options
from importer.sources.stored.source import read_stored
from store import ModelName, Store
from store.errors import UnsupportedError
from tests.importer.builders import create, model

NAME = ModelName.parse("m")
RNG = np.random.default_rng(7)
NORMAL = RNG.standard_normal((96, 128)).astype(np.float32)
ARRAYS = {
    "plain": NORMAL,
    "outliers": np.where(RNG.random((64, 64)) < 0.001, 50, NORMAL[:64, :64]).astype(np.float32),
    "zeros": np.zeros((32, 64), np.float32),
    "half zero": np.where(RNG.random((64, 64)) < 0.5, 0, NORMAL[:64, :64]).astype(np.float32),
    "one": np.full((1,), 3.5, np.float32),
    "constant": np.full((8, 64), -2.0, np.float32),
    "broken": np.array([[np.nan, np.inf, -np.inf, 1.0]] * 16, np.float32),
    "nothing": np.zeros((0, 4), np.float32),
}
DTYPES = {"F32": "<u4", "F16": "<u2", "BF16": "<u2"}


def imported(tmp_path, arrays, *, quantize=None):
    """The tensors of a model that has been made of arrays, by name."""
    asked = {"recipe": parse_options(quantize, recipe="uniform")} if quantize else {}
    store = Store(tmp_path / "store")
    create(store, model(tmp_path / "source", arrays), **asked)
    return {tensor.name: tensor for tensor in read_stored(store, NAME).tensors}


def stored(tmp_path, name, dtype="F32"):
    bits = floats.narrow(ARRAYS[name], dtype)
    entry = {"w.weight": (dtype, ARRAYS[name].shape, bits.tobytes())}
    tensors = imported(tmp_path, entry)
    return tensors["w.weight"], floats.widen(bits, dtype).astype(np.float64).reshape(-1)


@pytest.mark.parametrize("chunk", [1 << 10, 1 << 18])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ARRAYS)
def test_they_are_those_of_numpy(tmp_path, monkeypatch, name, dtype, chunk):
    monkeypatch.setattr(engine, "_CHUNK", chunk)
    tensor, values = stored(tmp_path, name, dtype)

    found = statistics_of(tensor)

    moments, finite = found.moments, values[np.isfinite(values)]
    assert moments.count == len(finite)
    assert moments.nans == np.count_nonzero(np.isnan(values))
    assert moments.infinities == np.count_nonzero(np.isinf(values))
    assert moments.zeros == np.count_nonzero(values == 0)
    if not len(finite):
        assert found.histogram.bins.sum() == 0
        return
    assert (moments.least, moments.most) == (finite.min(), finite.max())
    assert moments.mean == pytest.approx(finite.mean(), abs=1e-12)
    assert moments.deviation == pytest.approx(finite.std(), abs=1e-12)
    far = np.abs(finite - moments.mean) > 6 * moments.deviation
    assert found.histogram.outliers == np.count_nonzero(far)
    low, high = found.histogram.low, found.histogram.high
    inside = finite[(finite >= low) & (finite <= high)]
    assert found.histogram.bins.sum() == len(inside)
    if high > low:
        expected, _ = np.histogram(inside, BINS, (low, high))
        assert np.abs(np.cumsum(found.histogram.bins - expected)).max() <= 2


@pytest.mark.parametrize("kind", QUANT_TYPES)
def test_codes_and_zeroed_groups_are_counted(tmp_path, kind):
    values = NORMAL.copy()
    values[3, 64:] = 0
    bits = floats.narrow(values, "BF16")
    entry = {"w.weight": ("BF16", values.shape, bits.tobytes())}
    tensor = imported(tmp_path, entry, quantize=kind)["w.weight"]

    codes = statistics_of(tensor).codes

    assert tensor.stored_as.startswith(kind)
    assert codes.counts.sum() == values.size
    assert codes.groups == values.size // codes.spec.group_size
    assert codes.zeroed == 64 // codes.spec.group_size
    # Two codes of the small floats are a zero, and a NaN is never used.
    assert np.count_nonzero(codes.counts) > len(codes.counts) // 2


def test_integers_are_read_and_what_is_unknown_is_not():
    assert values_of(np.arange(4, dtype="<i8").tobytes(), "I64").tolist() == [0, 1, 2, 3]
    assert values_of(b"\x00\x01", "BOOL").tolist() == [0, 1]
    assert values_of(b"\x38", "F8_E4M3").tolist() == [1.0]
    with pytest.raises(UnsupportedError):
        values_of(b"\x00", "F4")
