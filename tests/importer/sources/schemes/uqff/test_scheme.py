"""UQFF as mistral.rs wrote it: values of every family, names, shapes, and what they become."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from importer.recipes.options import parse_options
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import ModelName, Store
from store.verify import verify
from tests.importer.builders import create
from tests.importer.sources.schemes import uqff_sources as uqff

SHOWN = {
    **{name: name for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1")},
    **{f"Q{bits}K": f"Q{bits}_K" for bits in (2, 3, 4, 5, 6, 8)},
    "AFQ2": "int2",
    "AFQ3": "int3",
    "AFQ4": "int4/64",
    "AFQ6": "int6",
    "AFQ8": "int8",
    "HQQ4": "hqq int4/64",
    "HQQ8": "hqq int8/64",
    "FP8": "fp8",
    "F8Q8": "f8q8",
    "MXFP4": "mxfp4",
}
"""What people are shown of each of mistral.rs's types."""
TYPES = uqff.GOLDEN["types"]


@pytest.fixture(scope="module")
def types():
    found = read_inventory(uqff.FIXTURES / "types")
    return {tensor.name: tensor for tensor in found.tensors}


def as_f32(tensor, data):
    """Values as float32."""
    if tensor.dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).tobytes()
    assert tensor.dtype == "F32"
    return data


@pytest.mark.parametrize("name", TYPES, ids=[row[0] for row in TYPES.values()])
@pytest.mark.parametrize("pieces", [1, 5])
def test_values_are_those_of_the_library_that_defines_the_type(types, name, pieces):
    isq, digest = TYPES[name]
    tensor = types[name]

    assert (tensor.shape, tensor.stored_as) == ((8, 256), SHOWN[isq])
    decoded = as_f32(tensor, uqff.values(tensor, pieces))
    assert hashlib.sha256(decoded).hexdigest() == digest


def test_every_tensor_has_hugging_faces_name_and_shape():
    found = read_inventory(uqff.FIXTURES / "qwen2-afq4")

    layer = "model.layers.0"
    attention = {
        "q_proj": (64, 64),
        "k_proj": (32, 64),
        "v_proj": (32, 64),
    }
    assert {tensor.name: (tensor.shape, tensor.stored_as) for tensor in found.tensors} == {
        "lm_head.weight": ((64, 64), "int6"),
        "model.embed_tokens.weight": ((64, 64), "int6"),
        "model.norm.weight": ((64,), ""),
        f"{layer}.input_layernorm.weight": ((64,), ""),
        f"{layer}.post_attention_layernorm.weight": ((64,), ""),
        f"{layer}.self_attn.o_proj.weight": ((64, 64), "int4/64"),
        **{
            f"{layer}.self_attn.{name}.weight": (shape, "int4/64")
            for name, shape in attention.items()
        },
        **{
            f"{layer}.self_attn.{name}.bias": (shape[:1], "")
            for name, shape in attention.items()
        },
        **{
            f"{layer}.mlp.{name}.weight": ((64, 64), "int4/64")
            for name in ("gate_proj", "up_proj", "down_proj")
        },
    }
    assert (found.scheme, found.is_decoded, found.notes) == ("uqff", True, ())


def test_experts_are_stacked():
    found = read_inventory(uqff.FIXTURES / "moe-q4_0")

    experts = [tensor for tensor in found.tensors if ".experts." in tensor.name]
    assert [(tensor.name.rpartition(".experts.")[2], tensor.shape) for tensor in experts] == [
        ("down_proj.weight", (2, 64, 32)),
        ("gate_proj.weight", (2, 32, 64)),
        ("up_proj.weight", (2, 32, 64)),
    ]
    assert {tensor.stored_as for tensor in experts} == {"Q4_0"}


def layers(store, name="m"):
    """Layers of tensors by name."""
    manifest = store.catalog.get(ModelName.parse(name)).parse()
    return {layer.name: layer for layer in manifest.layers if not layer.is_file}


def test_afq_is_kept_as_the_stores_types_and_can_be_verified(tmp_path):
    source = uqff.FIXTURES / "qwen2-afq4"
    with Store(tmp_path) as store:
        create(store, source)

        found = layers(store)
        weight = found["model.layers.0.mlp.up_proj.weight"]
        blob = store.blobs.path(weight.digest).read_bytes()
        length = 8 + int.from_bytes(blob[:8], "little")
        header = json.loads(blob[8:length])
        assert header.pop("__metadata__") == {"group_size": "64", "quant_type": "int4"}
        tensor = next(one for one in read_inventory(source).tensors if one.name == weight.name)
        assert blob[length:] == b"".join(uqff.stored_arrays(tensor))
        assert not [name for name in found if "format" in name or "version" in name]
        assert verify(store).findings == ()
        assert compare(store, ModelName.parse("m"), source).findings == ()


def test_what_the_store_has_no_type_for_keeps_all_its_entries(tmp_path):
    source = uqff.FIXTURES / "types"
    with Store(tmp_path) as store:
        create(store, source)

        kept = {name for name in layers(store) if ".12." in name or ".17." in name}
        ours = {name for name in layers(store) if ".14." in name}
        verified = compare(store, ModelName.parse("m"), source).findings
    hqq = ("axis", "bits", "channel_wise", "format", "group_size", "optimization_steps")
    hqq += ("round_zeros", "scales", "shape", "zeros")
    first, last = (f"model.layers.{number}.self_attn.k_proj.weight" for number in (12, 17))
    assert kept == {first, last, *(f"{last}.{name}" for name in hqq)}
    assert ours == {"model.layers.14.self_attn.k_proj.weight"}
    assert verified == ()


@pytest.mark.parametrize("name", ["types", "qwen2-afq4", "moe-q4_0"])
def test_every_family_becomes_a_type_that_is_asked_for(tmp_path, name):
    source = uqff.FIXTURES / name
    with Store(tmp_path) as store:
        create(store, source, recipe=parse_options("int8/32"))

        found = compare(store, ModelName.parse("m"), source).findings
        assert found == ()
        # An embedding stays as it is.
        rest = [name for name in layers(store) if name.endswith((".format", ".shape"))]
        assert all("embed_tokens" in name for name in rest)


def test_any_number_of_threads_makes_the_same_bytes(tmp_path):
    made = []
    for threads in (1, 3):
        with Store(tmp_path / f"{threads}") as store:
            create(
                store,
                uqff.FIXTURES / "types",
                recipe=parse_options("int4"),
                threads=threads,
            )
            made.append({layer.digest for layer in layers(store).values()})
    assert made[0] == made[1]


@pytest.mark.parametrize("family", uqff.LAYERS)
def test_a_layer_written_by_hand_is_read(tmp_path, family):
    bias = {f"{uqff.KEY}.bias": ("F32", (4 if family == "hqq" else 2,))}
    found = read_inventory(uqff.model(tmp_path, uqff.entries(family), **bias))

    assert [tensor.name for tensor in found.tensors] == [
        f"{uqff.KEY}.bias",
        uqff.WEIGHT,
        "model.norm.weight",
    ]
    tensor = found.tensors[1]
    assert len(uqff.values(tensor)) == len(uqff.values(tensor, 3))


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F8_E4M3"])
def test_what_is_added_has_the_dtype_that_mistral_rs_gives_it(tmp_path, dtype):
    # That of a layer in FP8 is rounded to E4M3, without a scale.
    bias = {f"{uqff.KEY}.bias": (dtype, (2,))}
    tensors = read_inventory(uqff.model(tmp_path, uqff.entries("fp8"), **bias)).tensors

    assert (tensors[0].dtype, tensors[0].is_plain) == (dtype, True)


@pytest.mark.parametrize(
    ("family", "shape", "changes"),
    [
        (
            "afq",
            (3, 2, 64),
            {
                "data": ("U32", (3, 2, 8)),
                "scales": ("BF16", (3, 2, 1)),
                "biases": ("BF16", (3, 2, 1)),
            },
        ),
        ("mxfp4", (3, 2, 64), {"data": ("U8", (3, 2, 32)), "scales": ("U8", (3, 2, 2))}),
        ("q8_0", (3, 2, 32), {"data": ("U8", (6 * 34,)), "shape": uqff.u32(3, 2, 32)}),
        ("plain", (3, 2, 5), {"data": ("F16", (3, 2, 5))}),
    ],
)
def test_layers_of_all_experts_are_read(tmp_path, family, shape, changes):
    bias = {f"{uqff.KEY}.bias": ("F16", shape[:2])}
    layer = uqff.entries(family, **changes)

    tensors = read_inventory(uqff.model(tmp_path, layer, **bias)).tensors

    assert tensors[1].shape == shape


def test_a_layer_may_be_split_over_shards(tmp_path):
    source = uqff.model(tmp_path / "one", uqff.entries("hqq"))
    parts = list(uqff.entries("hqq").items())
    split = uqff.model(tmp_path / "two", dict(parts[:4]))
    (split / "q4k-1.uqff").write_bytes(uqff.shard(dict(parts[4:])))

    one, two = (read_inventory(directory).tensors[0] for directory in (source, split))

    assert uqff.stored_arrays(one) == uqff.stored_arrays(two)
    assert uqff.values(one, 4) == uqff.values(two)


@pytest.mark.parametrize("name", ["types", "qwen2-afq4", "moe-q4_0"])
@pytest.mark.parametrize("target", ["int8/32", "repack", "f32"])
def test_a_stored_model_of_layers_becomes_what_its_source_becomes(tmp_path, name, target):
    recipe = parse_options(target)
    with Store(tmp_path) as store:
        create(store, uqff.FIXTURES / name)
        create(store, StoredModel(ModelName.parse("m")), "again", recipe=recipe)
        create(store, uqff.FIXTURES / name, "direct", recipe=recipe)

        again, direct = (layers(store, model) for model in ("again", "direct"))
    assert {key: layer.digest for key, layer in again.items()} == {
        key: layer.digest for key, layer in direct.items()
    }


def test_a_model_in_f32_has_the_values_of_the_libraries(tmp_path):
    with Store(tmp_path) as store:
        create(store, uqff.FIXTURES / "types", recipe=parse_options("f32"))

        for name, (_, digest) in TYPES.items():
            blob = store.blobs.path(layers(store)[name].digest).read_bytes()
            data = blob[8 + int.from_bytes(blob[:8], "little") :]
            assert hashlib.sha256(data).hexdigest() == digest
