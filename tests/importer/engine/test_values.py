"""Samples of values: counted as numpy counts, bounded, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from importer.engine import values as values_module
from importer.engine.values import sample
from importer.sources.inventory import read_inventory
from tests.importer.builders import MODELS, model


def tensors(directory, **arrays):
    entries = {
        name: (kind, array.shape, array.tobytes()) for name, (kind, array) in arrays.items()
    }
    return read_inventory(model(directory, entries)).tensors


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_all_values_are_counted_where_there_are_few(tmp_path):
    array = normal(64, 32)
    array[0, :5] = 0
    array[1, :3] = 50

    found = sample(tensors(tmp_path, w=("F32", array)))

    assert (found.tensors, found.elements, found.sampled) == (1, 2048, 2048)
    assert (found.zeros, found.beyond, found.nonfinite) == (5, 3, 0)
    assert sum(found.counts) + found.beyond == 2048
    assert (found.smallest, found.largest) == (float(array.min()), 50)
    assert found.deviation == pytest.approx(array.std(dtype=np.float64))


def test_what_is_not_finite_is_counted_apart(tmp_path):
    array = np.array([1, np.nan, np.inf, -np.inf, 2], np.float32)

    found = sample(tensors(tmp_path, w=("F32", array)))

    assert (found.sampled, found.nonfinite) == (5, 3)
    assert (found.smallest, found.largest) == (1, 2)


@pytest.mark.parametrize("array", [np.zeros(9, np.float32), np.full(3, np.nan, np.float32)])
def test_without_a_spread_there_is_no_histogram(tmp_path, array):
    found = sample(tensors(tmp_path, w=("F32", array)))

    assert (found.edge, found.counts) == (0, ())


def test_integers_and_empty_tensors_have_no_sample(tmp_path):
    ids, empty = np.arange(3), np.zeros((0, 4), np.float32)

    assert sample(tensors(tmp_path, ids=("I64", ids), none=("F32", empty))) is None
    assert sample([]) is None


def test_a_sample_is_bounded_and_spread_over_the_tensor(tmp_path, monkeypatch):
    monkeypatch.setattr(values_module, "_VALUES", 1000)
    array = np.arange(100_000, dtype=np.float32)

    found = sample(tensors(tmp_path, w=("F32", array)))

    assert found.elements == 100_000
    assert 900 <= found.sampled <= 1000
    assert found.smallest == 0
    assert found.largest > 90_000


def test_of_many_tensors_some_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(values_module, "_TENSORS", 4)
    arrays = {f"w{number:02}": ("F32", np.full(8, number, np.float32)) for number in range(16)}

    found = sample(tensors(tmp_path, **arrays))

    assert (found.tensors, found.sampled) == (16, 32)


def test_packed_values_are_decoded():
    found = [sample(read_inventory(place).tensors) for place in sorted(MODELS.iterdir())]

    assert all(one.sampled for one in found)
