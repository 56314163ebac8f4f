"""Importance matrices in safetensors, and everything that may be wrong with one."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save

from importer.formats.imatrix.read import read_matrix
from store import IngotError

GOOD = {
    "model.layers.0.mlp.down_proj.weight": np.float32([1, 2, 3]),
    "experts.down_proj": np.float32([[1, 2], [0, 0]]),
}
BAD = {
    "another dtype": save({"a": np.float16([1])}),
    "no dimension": save({"a": np.ones((), np.float32)}),
    "three dimensions": save({"a": np.ones((1, 1, 1), np.float32)}),
    "no number": save({"a": np.ones((0,), np.float32)}),
    "no entry": save({}),
    "cut": save(GOOD)[:-1],
    "longer": save(GOOD) + b"x",
    "only a header's length": (100).to_bytes(8, "little") + b"{",
    "not JSON": (8).to_bytes(8, "little") + b"{       ",
}


def read(data):
    return read_matrix("x", len(data), lambda start, end: data[start:end])


def test_arrays_are_importance_by_the_name_of_the_weight():
    found = read(save(GOOD, {"text": "wiki.txt", "chunks": "7"}))

    assert not found.is_gguf
    assert {
        name: np.frombuffer(data, "<f4").tolist() for name, data in found.entries.items()
    } == {name: numbers.reshape(-1).tolist() for name, numbers in GOOD.items()}
    assert (found.datasets, found.chunks) == (("wiki.txt",), 7)


def test_what_the_file_says_of_its_text_may_be_missing_or_nonsense():
    assert read(save(GOOD)).chunks == 0
    assert read(save(GOOD, {"chunks": "-1"})).chunks == 0


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_malformed_is_an_error(data):
    with pytest.raises(IngotError) as error:
        read(data)

    assert error.value.code.startswith("E_IMATRIX")
    assert str(error.value).startswith("x: ")
