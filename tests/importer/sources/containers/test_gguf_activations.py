"""Numbers of an activation that a converter wrote into the metadata are tensors."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import pytest

from importer.recipes.options import parse_options
from importer.sources.inventory import read_inventory
from importer.verification.compare import compare
from store import ModelName, Store
from tests.importer.builders import create, write
from tests.importer.formats.gguf import builders

SOURCE = Path(__file__).resolve().parents[2] / "formats/gguf_names/fixtures/apertus.gguf"
KEYS = ("alpha_n", "alpha_p", "beta", "eps")


def bytes_of(tensor):
    (array,) = tensor.arrays
    return array.file.location.read_bytes()[array.offset :][: array.nbytes]


def activations(source):
    return {
        tensor.name.rpartition(".")[2]: tensor
        for tensor in read_inventory(source).tensors
        if ".act_fn." in tensor.name
    }


def test_each_lies_where_the_library_reads_it():
    fields = gguf.GGUFReader(SOURCE).fields
    found = activations(SOURCE)

    assert sorted(found) == sorted(KEYS)
    for key, tensor in found.items():
        assert [*struct.unpack("<f", bytes_of(tensor))] == fields[f"xielu.{key}"].contents()


@pytest.mark.parametrize("quant", ["int8", "f32", "bf16"])
def test_they_are_imported_and_compared(tmp_path, quant):
    with Store(tmp_path / "store") as store:
        create(store, SOURCE, recipe=parse_options(quant))

        assert compare(store, ModelName.parse("m"), SOURCE).findings == ()


@pytest.mark.parametrize(
    ("kind", "values"), [("f32", [1.0]), ("f64", [1.0, 2.0]), ("u32", [1, 2])]
)
def test_an_array_of_another_kind_or_length_makes_none(tmp_path, kind, values):
    keys = [
        ("general.architecture", "string", "apertus"),
        ("apertus.block_count", "u32", 2),
        ("xielu.beta", ("array", kind), values),
        ("xielu.eps", ("array", "f32"), [0.5, 0.25]),
    ]
    data = builders.gguf([("token_embd.weight", "F32", (2, 8))], keys)
    found = activations(write(tmp_path, {"x.gguf": data}))

    assert list(found) == ["eps"]
