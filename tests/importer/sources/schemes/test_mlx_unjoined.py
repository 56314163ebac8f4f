"""MLX's arrays that are not decoded, and those that models of earlier versions have."""

from __future__ import annotations

import json

import pytest

from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from importer.verification.repair import repair
from store import ModelName, Store
from store.errors import UnsupportedError
from store.verify import verify
from tests.importer.builders import create
from tests.importer.sources.schemes.mlx_sources import (
    X,
    config,
    quantized,
    save,
)
from tests.importer.sources.schemes.stored_types import types

mx = pytest.importorskip("mlx.core")

NAME = ModelName.parse("m")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def placeless():
    """Name -> arrays, configuration and why."""
    one = quantized(X, (4, 128), ("affine", 4, 64), "F16")
    mixed = {**one, f"{X}.biases": one[f"{X}.biases"].astype(mx.float32)}
    fp4 = quantized(X, (4, 128), ("mxfp4", 4, 32))
    odd = {f"{X}.weight": fp4[f"{X}.weight"], f"{X}.scales": mx.zeros((4, 2), mx.uint8)}
    whole = {**quantized(X, (4, 128), ("nvfp4", 4, 16)), f"{X}.global_scale": mx.ones((1,))}
    bit = {**one, f"{X}.weight": mx.zeros((4, 4), mx.uint32)}
    return {
        "two dtypes": (mixed, config("affine", 4, 64), "F16 and its biases F32"),
        "a group of mxfp4": (odd, config("mxfp4", 4, 64), "mxfp4, 4 bits in groups of 64"),
        "a global scale": (whole, config("nvfp4", 4, 16), "scale of the whole tensor"),
        "one bit": (bit, config("affine", 1, 64), "1 bits in groups of 64"),
    }


@pytest.mark.parametrize("what", placeless())
def test_what_has_no_type_is_refused_by_name(tmp_path, what):
    arrays, quantization, why = placeless()[what]
    more = quantized("b", (4, 128), ("nvfp4", 4, 16))
    modules = {"b": {"mode": "nvfp4", "bits": 4, "group_size": 16}}
    source = save(tmp_path / "s", arrays | more, {**quantization, **modules})

    with pytest.raises(UnsupportedError, match=why) as caught:
        read_inventory(source)

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)
    assert f"`{X}.weight` is not decoded" in str(caught.value)


# Models of earlier versions.


@pytest.fixture
def old(store, tmp_path):
    """A source, and a model with its arrays, as earlier versions stored it."""
    arrays = {
        **quantized(X, (4, 128), ("affine", 4, 64)),
        **quantized("model.layers.0.mlp.experts.0.up_proj", (4, 128), ("affine", 4, 64)),
        **quantized("model.layers.0.mlp.experts.1.up_proj", (4, 128), ("affine", 4, 64)),
    }
    source = save(tmp_path / "s", arrays, config("affine", 4, 64))
    create(store, source, as_arrays=True)
    return source


def test_a_model_of_an_earlier_version_is_as_its_source(store, old):
    found = describe(store, NAME)
    assert (found.prequantized, found.parameters) == ("mlx", 3 * 4 * 128)
    assert types(store)[f"{X}.weight"] == ("int4/64", None, (4, 128))
    layer = store.catalog.get(NAME).parse().config
    record = json.loads(store.blobs.read(layer.ref, 1 << 20))
    assert (record["ingot"]["prequantized"], record["file_type"]) == ("mlx", "mlx")
    assert "joined" not in record["ingot"]
    assert verify(store).findings == ()
    assert compare(store, NAME, old).findings == ()


def test_a_difference_to_an_earlier_version_is_found(store, old):
    path = old / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)

    assert len(compare(store, NAME, old).findings) == 1


def test_a_model_of_an_earlier_version_is_repaired(store, old):
    layers = store.catalog.get(NAME).parse().layers
    path = store.blobs.path(layers[0].digest)
    before = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))

    done = repair(store, verify(store), source=old)

    assert (len(done.repaired), done.remaining) == (1, ())
    assert path.read_bytes() == before


def test_a_model_of_an_earlier_version_is_quantized_as_a_new_one(store, old):
    asked = parse_options("int8")

    stored = plan_import(ImportRequest(NAME, StoredModel(NAME), asked), store)
    new = plan_import(ImportRequest(NAME, old, asked), store)

    assert [blob.header for blob in stored.blobs] == [blob.header for blob in new.blobs]


def test_a_damaged_new_model_is_repaired(store, tmp_path):
    source = save(
        tmp_path / "s", quantized(X, (4, 128), ("affine", 4, 64)), config("affine", 4, 64)
    )
    create(store, source)
    layers = store.catalog.get(NAME).parse().layers
    path = store.blobs.path(layers[0].digest)
    before = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))

    done = repair(store, verify(store), source=source)

    assert (len(done.repaired), done.remaining) == (1, ())
    assert path.read_bytes() == before


def test_a_stored_model_is_a_source_again(store, tmp_path):
    source = save(
        tmp_path / "s", quantized(X, (4, 128), ("affine", 4, 64)), config("affine", 4, 64)
    )
    create(store, source)
    create(store, StoredModel(NAME), "again")
    create(store, StoredModel(NAME), "bf16", recipe=parse_options("bf16"))
    create(store, source, "direct", recipe=parse_options("bf16"))

    def tensors(name):
        return store.catalog.get(ModelName.parse(name)).parse().layers

    assert tensors("again") == tensors("m")
    assert tensors("bf16") == tensors("direct")
