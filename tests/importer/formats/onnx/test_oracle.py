"""What torch, onnxruntime and onnx wrote is read as onnx and onnxruntime read it."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from importer.codecs.onnx.matmul_nbits import MatMulNBits
from importer.sources.inventory import read_inventory
from tests.importer.builders import REPOSITORY
from tests.importer.formats.onnx.values import values

FIXTURES = REPOSITORY / "fixtures" / "onnx"
GOLDEN = json.loads((FIXTURES / "golden.json").read_text())["files"]
WEIGHTS = [(file, name) for file, found in GOLDEN.items() for name in found["weights"]]


@pytest.mark.parametrize("size", [64, 1 << 20])
@pytest.mark.parametrize("name", GOLDEN)
def test_arrays_are_those_of_onnx(name, size):
    found = {
        one.name: [
            one.dtype,
            list(one.shape),
            hashlib.sha256(values(one, size)).hexdigest(),
        ]
        for one in read_inventory(FIXTURES / name, as_arrays=True).tensors
    }

    assert found == GOLDEN[name]["arrays"]


@pytest.mark.parametrize("size", [64, 700, 1 << 20])
@pytest.mark.parametrize(("file", "name"), WEIGHTS)
def test_weights_are_those_of_onnxruntime(file, name, size):
    tensors = read_inventory(FIXTURES / file).tensors

    (found,) = (one for one in tensors if one.arrays[0].name == name)
    data = values(found, size)
    if isinstance(found.decoder, MatMulNBits):  # a product has no -0
        data = (np.frombuffer(data, "<f4") + 0).tobytes()
    digest = hashlib.sha256(data).hexdigest()
    assert [list(found.shape), digest] == GOLDEN[file]["weights"][name]


def test_there_are_weights_of_every_kind():
    kinds = {
        str(one.decoder)
        for file in GOLDEN
        for one in read_inventory(FIXTURES / file).tensors
        if not one.is_plain
    }

    assert kinds == {
        "MatMulNBits int2/16",
        "MatMulNBits int4/16",
        "MatMulNBits int4/32",
        "MatMulNBits int8/16",
        "QDQ int32",
        "QDQ int4",
        "QDQ int4/32",
        "QDQ int8",
        "QDQ uint4/16",
        "QDQ uint8",
    }
