"""Arrays under two names are stored once, unless each name is a part of another weight."""

from __future__ import annotations

import numpy as np
import pytest

from importer.recipes.options import parse_options
from importer.sources.inventory import read_inventory
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import UnsupportedError
from tests.importer.builders import create, write
from tests.importer.formats.pytorch.builders import (
    archive,
    entry,
    mapping,
    pickled,
    storage,
    tensor,
)
from tests.importer.sources.schemes.decoding import decoded

NAME = ModelName.parse("m")
CODES = np.arange(-32, 32, dtype="i1").reshape(4, 16)
OTHERS = CODES[::-1].copy()
SCB = np.array([127.0, 254.0, 63.5, 12.7], "<f4")
DECLARED = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}

BY_CHANNEL = {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "config_groups": {
            "g": {
                "targets": ["Linear"],
                "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
            }
        },
    }
}


def of(key, array, shape=None, strides=None):
    """A tensor whose storage is a record of the archive."""
    kind = {"int8": "torch\nCharStorage", "float32": "torch\nFloatStorage"}[array.dtype.name]
    usual = [stride // array.itemsize for stride in array.strides]
    at = storage(key, array.size, kind)
    return tensor(at, shape=shape or array.shape, strides=strides or usual)


def checkpoint(directory, tensors, config=DECLARED):
    """A model of two matrices in eight bits, whose scales are one array."""
    records = {"0": CODES, "1": OTHERS, "2": SCB}
    data = [entry(f"x/data/{key}", array.tobytes()) for key, array in records.items()]
    file = archive(entry("x/data.pkl", pickled(mapping(**tensors))), *data)
    return write(directory, {"pytorch_model.bin": file, "config.json": config})


TIED = {
    "q.weight": of("0", CODES),
    "q.SCB": of("2", SCB),
    "k.weight": of("1", OTHERS),
    "k.SCB": of("2", SCB),
}


def test_a_scale_that_two_weights_share_belongs_to_each(tmp_path):
    found = read_inventory(checkpoint(tmp_path / "in", TIED))

    assert [(one.name, len(one.arrays)) for one in found.tensors] == [
        ("k.weight", 2),
        ("q.weight", 2),
    ]
    k, q = (decoded(one).view("f4").reshape(4, 16) for one in found.tensors)
    assert np.allclose(q, CODES * SCB[:, None] / 127)
    assert np.allclose(k, OTHERS * SCB[:, None] / 127)
    assert not any("stored once" in note for note in found.notes)


@pytest.mark.parametrize("quant", [None, "f32"])
def test_such_a_model_compares_with_its_source(tmp_path, quant):
    source = checkpoint(tmp_path / "in", TIED)
    with Store(tmp_path / "store") as store:
        create(store, source, **({"recipe": parse_options(quant)} if quant else {}))

        found = compare(store, NAME, source)

    assert found.findings == ()
    assert found.tensors == (4 if quant is None else 2)


def test_a_weight_whose_arrays_are_all_those_of_another_is_stored_once(tmp_path):
    tensors = TIED | {"tied.weight": of("0", CODES), "tied.SCB": of("2", SCB)}

    found = read_inventory(checkpoint(tmp_path / "in", tensors))

    assert [one.name for one in found.tensors] == ["k.weight", "q.weight"]
    assert "1 tied tensor is stored once: `tied.weight` is `q.weight`" in found.notes


@pytest.mark.parametrize(
    "view",
    [
        {"a.weight": of("0", CODES, (4, 16), (1, 4))},
        {"a.weight_scale": of("2", SCB, (4, 1), (0, 1))},
    ],
    ids=["codes", "scales"],
)
def test_a_view_is_not_taken_for_a_part_of_a_quantized_weight(tmp_path, view):
    """Its bytes are in another order: decoded as they are they gave wrong values, exit 0."""
    parts = {"a.weight": of("0", CODES), "a.weight_scale": of("2", SCB, (4, 1), (1, 1))}
    (whole,) = read_inventory(checkpoint(tmp_path / "whole", parts, BY_CHANNEL)).tensors
    assert len(whole.arrays) == 2

    with pytest.raises(UnsupportedError, match=r"`a\.\w+` .* belongs to a quantized weight"):
        read_inventory(checkpoint(tmp_path / "in", parts | view, BY_CHANNEL))


def test_a_view_of_a_plain_checkpoint_is_read(tmp_path):
    tensors = {"a.weight": of("2", SCB, (2, 2), (1, 2))}

    (found,) = read_inventory(checkpoint(tmp_path / "in", tensors, {})).tensors

    assert decoded(found).view("f4").tolist() == [127.0, 63.5, 254.0, 12.699999809265137]
