"""A new container and a new scheme are a class each, and one line in a mapping."""

from __future__ import annotations

import pytest

from importer.sources.classification import classify
from importer.sources.cross_check import check_reference
from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.builders import safetensors, write
from tests.importer.toys import toy, toys

__all__ = ["toys"]  # a fixture
TENSORS = {
    "a.low": ("U8", (4, 8)),
    "a.step": ("F32", (8,)),
    "norm.weight": ("F32", (8,)),
}
W = safetensors({"w.weight": ("F32", (2,))})


def shapes(inventory):
    return {tensor.name: (tensor.dtype, tensor.shape) for tensor in inventory.tensors}


@pytest.mark.usefixtures("toys")
def test_a_directory_in_a_new_container_and_scheme_is_read(tmp_path):
    found = read_inventory(write(tmp_path, {"model.toy": toy(TENSORS), "config.json": {}}))

    assert shapes(found) == {"a.weight": ("F32", (8, 4)), "norm.weight": ("F32", (8,))}
    arrays = [array.name for tensor in found.tensors for array in tensor.arrays]
    assert arrays == ["a.low", "a.step", "norm.weight"]
    assert [file.path for file in found.weights] == ["model.toy"]
    assert [file.path for file in found.files] == ["config.json"]
    assert classify(found).scheme == "halves"
    assert found.metadata == {"model.toy": {"maker": "toy"}}


@pytest.mark.usefixtures("toys")
def test_choosing_weights_is_the_same_for_every_container(tmp_path):
    parts = [{"a": ("U8", (1,))}, {"b": ("U8", (1,))}]
    names = ["model-00001-of-00002.toy", "model-00002-of-00002.toy"]
    files = dict(zip(names, map(toy, parts), strict=True))
    write(tmp_path / "numbered", {**files, "model.fp16.toy": toy(TENSORS)})
    write(
        tmp_path / "indexed",
        {**files, "model.toy.index.json": {"weight_map": dict(zip("ab", names, strict=True))}},
    )
    write(tmp_path / "lacking", {names[1]: files[names[1]]})

    assert list(shapes(read_inventory(tmp_path / "numbered"))) == ["a", "b"]
    assert list(shapes(read_inventory(tmp_path / "indexed"))) == ["a", "b"]
    assert "norm.weight" in shapes(read_inventory(tmp_path / "numbered", "fp16"))
    with pytest.raises(InputError) as caught:
        read_inventory(tmp_path / "lacking")
    assert caught.value.code == "E_SRC_SHARD_MISSING"


@pytest.mark.usefixtures("toys")
def test_the_first_container_of_the_mapping_is_taken(tmp_path):
    write(tmp_path, {"model.safetensors": W, "model.toy": toy(TENSORS)})

    found = read_inventory(tmp_path)

    assert list(shapes(found)) == ["w.weight"]
    assert [(out.path, out.reason) for out in found.left_out] == [
        ("model.toy", "weights in another format")
    ]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("name", ["x.toy", "x", "x.safetensors"])
def test_a_single_file_is_known_by_its_content(tmp_path, name):
    write(tmp_path, {name: toy(TENSORS)})

    assert list(shapes(read_inventory(tmp_path / name))) == ["a.weight", "norm.weight"]


def test_without_the_line_nothing_is_known(tmp_path):
    write(tmp_path, {"model.toy": toy(TENSORS)})

    with pytest.raises(InputError) as caught:
        read_inventory(tmp_path)
    with pytest.raises(UnsupportedError):
        read_inventory(tmp_path / "model.toy")

    assert caught.value.code == "E_SRC_EMPTY"


@pytest.mark.usefixtures("toys")
def test_the_second_parser_is_shown_the_arrays_of_joined_tensors(tmp_path):
    found = read_inventory(write(tmp_path, {"model.safetensors": safetensors(TENSORS)}))

    check_reference(found, lambda _: False)

    assert list(shapes(found)) == ["a.weight", "norm.weight"]
