"""Files in the form of our own blobs, with and without what they say about themselves."""

from __future__ import annotations

import pytest

from importer.recipes.options import parse_options
from importer.sources.inventory import read_inventory
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import InputError, UnsupportedError
from tests.importer.builders import create, model, safetensors, write
from tests.importer.sources.schemes.stored_types import types

NAME = ModelName.parse("m")
TYPES = [f"int{bits}/{size}" for bits in (2, 3, 4, 5, 6, 8) for size in (32, 64, 128)]
TYPES += ["nvfp4", "mxfp4", "mxfp8"]
AFFINE = {"w": ("U32", (4, 16)), "w.scale": ("F16", (4, 2)), "w.bias": ("F16", (4, 2))}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


@pytest.mark.parametrize("kind", TYPES)
def test_a_blob_of_ours_is_a_source(store, tmp_path, kind):
    source = model(tmp_path / "s", {"a.weight": ("BF16", (32, 256))})
    recipe = parse_options(kind, allow_nonfinite=True)
    create(store, source, recipe=recipe)
    layer = store.catalog.get(NAME).parse().layers[0]
    blob = {"model.safetensors": store.blobs.path(layer.digest).read_bytes()}

    create(store, write(tmp_path / "b", blob), "again")

    again = store.catalog.get(ModelName.parse("again")).parse().layers[0]
    assert again == layer
    assert types(store, ModelName.parse("again"))["a.weight"][2] == (32, 256)
    assert compare(store, ModelName.parse("again"), tmp_path / "b").findings == ()


def read(tmp_path, tensors, metadata):
    content = safetensors(tensors, metadata)
    return read_inventory(write(tmp_path / "s", {"model.safetensors": content})).tensors


def test_the_file_goes_before_the_guess(tmp_path):
    (told,) = read(tmp_path, AFFINE, {"quant_type": "int8", "group_size": "32"})
    (guessed,) = read(tmp_path, AFFINE, None)

    assert (told.stored_as, told.shape) == ("int8/32", (4, 64))
    assert (guessed.stored_as, guessed.shape) == ("int4/64", (4, 128))


def test_a_key_of_the_tensor_goes_before_that_of_all(tmp_path):
    metadata = {"quant_type": "int4", "w.quant_type": "int2", "w.group_size": "128"}

    (found,) = read(tmp_path, AFFINE, metadata)

    assert (found.stored_as, found.shape) == ("int2/128", (4, 256))


@pytest.mark.parametrize(
    ("tensors", "metadata"),
    [
        (AFFINE, {"quant_type": "int4", "group_size": "32"}),
        (AFFINE, {"quant_type": "nvfp4"}),
        (AFFINE | {"w.bias": ("F32", (4, 2))}, {"quant_type": "int4", "group_size": "64"}),
        (AFFINE | {"w.bias": ("F16", (4, 1))}, {"quant_type": "int4", "group_size": "64"}),
        (AFFINE | {"w": ("U32", ())}, {"quant_type": "int4", "group_size": "64"}),
        (
            {name: AFFINE[name] for name in ("w", "w.scale")},
            {"quant_type": "int4", "group_size": "64"},
        ),
    ],
)
def test_a_type_that_parts_do_not_fit_is_refused(tmp_path, tensors, metadata):
    with pytest.raises(InputError) as caught:
        read(tmp_path, tensors, metadata)

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_PAIR", 3)


@pytest.mark.parametrize(
    "metadata", [{"quant_type": "q9"}, {"quant_type": "int4", "group_size": "0"}]
)
def test_a_type_that_is_not_known_is_refused(tmp_path, metadata):
    with pytest.raises(UnsupportedError) as caught:
        read(tmp_path, AFFINE, metadata)

    assert caught.value.exit_code == 4
