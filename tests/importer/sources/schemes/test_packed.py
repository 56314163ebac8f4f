"""Checkpoints that GPTQModel, AutoAWQ and bitsandbytes wrote (tests/zoo/make_packed.py)."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest

from importer.codecs.reference import floats
from importer.codecs.registry import codec_for, type_held
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES
from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.recipes.recipe import Recipe
from importer.recipes.rule import Rule
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.schemes.registry import scheme_of
from importer.verification.compare import compare
from store import MediaType, ModelName, Store
from store.tensorfile import parse_header
from store.verify import verify
from tests.importer.builders import REPOSITORY, create
from tests.importer.sources.schemes.decoding import contents, decoded, digest_of

NAME = ModelName.parse("m")
PACKED = REPOSITORY / "fixtures" / "packed"
GOLDEN = json.loads((PACKED / "golden.json").read_text())
DOWN, KEY = "model.layers.0.mlp.down_proj.weight", "model.layers.0.self_attn.k_proj.weight"
TYPES = {
    "autoawq-gemv": "awq int4/32",
    "awq-3": "awq int3/32",
    "awq-4": "awq int4/32",
    "fp4": "fp4/64",
    "gptq-2-whole": "gptq int2/96",
    "gptq-3-asym": "gptq int3/32",
    "gptq-3-planar": "gptq int3/32",
    "gptq-4": "gptq int4/32",
    "gptq-4-act-order": "gptq int4/32 act-order",
    "gptq-4-v2": "gptq int4/32",
    "gptq-6": "gptq int6/32",
    "gptq-7": "gptq int7/32",
    "gptq-8": "gptq int8/64",
    "gptq-dynamic": "gptq int8/16",
    "llm-int8": "bnb int8",
    "nf4": "nf4/64",
    "nf4-bf16-storage": "nf4/64",
    "nf4-nested": "nf4/64 nested",
}
HELD = {
    "autoawq-gemv", "awq-3", "awq-4", "gptq-2-whole", "gptq-3-asym", "gptq-3-planar", "gptq-4",
    "gptq-4-v2", "gptq-6", "gptq-8", "gptq-dynamic",
}  # fmt: skip
NOT_HELD = {(DOWN, "gptq-dynamic")}
"""In groups of 16."""
each = pytest.mark.parametrize("name", GOLDEN)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


@each
def test_values_are_those_of_the_program_that_wrote_it(name):
    found = {tensor.name: tensor for tensor in read_inventory(PACKED / name).tensors}

    for key, (dtype, digest) in GOLDEN[name].items():
        assert digest_of(found[key], dtype) == digest
    assert found[DOWN].stored_as == TYPES[name]
    assert found[DOWN].shape == (64, 128 if name.startswith("awq") else 96)
    assert found[KEY].shape == (64 if name.startswith("awq") else 32, 64)
    assert {one.name for one in found.values() if not one.is_plain} == GOLDEN[name].keys()


@each
def test_it_is_quantized_anew(store, name):
    recipe = Recipe(
        "r", (Rule((DOWN, KEY), QUANT_TYPES["int4"], "all"), Rule(("*",), None, ""))
    )
    source = PACKED / name

    create(store, source, recipe=recipe)

    found = {tensor.name: tensor for tensor in read_inventory(source).tensors}
    stored = {one.name: one for one in describe(store, NAME).tensors}
    for key in (DOWN, KEY):
        parts = int4(found[key], source)
        assert (stored[key].type_name, stored[key].shape) == ("int4", found[key].shape)
        assert blob_data(store, key) == b"".join(map(bytes, parts))
    assert verify(store).findings == ()
    assert compare(store, NAME, source).findings == ()
    assert describe(store, NAME).prequantized is None


@each
@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_values_are_kept_in_16_bits(store, name, target):
    source = PACKED / name

    create(store, source, recipe=parse_options(target))

    found = {tensor.name: tensor for tensor in read_inventory(source).tensors}
    for key, (dtype, digest) in GOLDEN[name].items():
        bits = decoded(found[key])
        made = floats.narrow(floats.widen(bits, found[key].dtype), target.upper())
        assert blob_data(store, key) == made.tobytes()
        if dtype == target.upper():
            assert hashlib.sha256(made.tobytes()).hexdigest() == digest


@each
def test_nothing_asked_keeps_the_arrays(store, name):
    source = PACKED / name

    create(store, source)

    content = (source / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = parse_header(content[8 : 8 + length], len(content), "x")
    stored = {layer.name for layer in layers(store)}
    assert stored == {entry.name for entry in header.entries}
    for entry in header.entries:
        start = 8 + length + entry.begin
        assert blob_data(store, entry.name) == content[start : start + entry.nbytes]
    assert compare(store, NAME, source).findings == ()
    assert describe(store, NAME).prequantized is not None


@each
def test_a_plan_names_the_type(store, name):
    recipe = Recipe("r", (Rule((DOWN,), QUANT_TYPES["int4"], "all"), Rule(("*",), None, "")))

    plan = plan_import(ImportRequest(NAME, PACKED / name, recipe), store)

    (made,) = [one for blob in plan.blobs for one in blob.tensors if one.name == DOWN]
    assert TYPES[name] in made.decision.reason


@each
def test_codes_are_kept_where_the_store_has_a_type_for_them(store, name):
    create(store, PACKED / name, recipe=parse_options("repack"))

    held = {
        key: type_held(tensor.decoder, tensor.shape)
        for tensor in read_inventory(PACKED / name).tensors
        if (key := tensor.name) in GOLDEN[name]
    }
    stored = {one.name: one for one in describe(store, NAME).tensors}
    for key, spec in held.items():
        assert (spec is not None) == (name in HELD and (key, name) not in NOT_HELD)
        if spec is not None:
            found = stored[key].type_name, stored[key].group_size
            assert found == (spec.name, spec.group_size)
    assert compare(store, NAME, PACKED / name).findings == ()


def test_a_reordered_layer_has_values_that_its_order_moves():
    found = {t.name: t for t in read_inventory(PACKED / "gptq-4-act-order").tensors}
    tensor = found[DOWN]
    groups = np.frombuffer(
        tensor.arrays[3].file.location.read_bytes()[tensor.arrays[3].offset :], "<i4", 96
    )

    assert not np.array_equal(groups, np.arange(96) // 32)


@each
def test_arrays_of_stored_models_are_recognized(name):
    arrays = [
        (array.name, array.dtype)
        for tensor in read_inventory(PACKED / name, as_arrays=True).tensors
        for array in tensor.arrays
    ]
    config = json.loads((PACKED / name / "config.json").read_text())
    expected = {"gptq": "gptq", "awq": "awq", "bitsandbytes": "bitsandbytes"}

    assert scheme_of(arrays, config) == expected[config["quantization_config"]["quant_method"]]


def int4(tensor, source):
    """The parts that a tensor becomes: its codes, where they are those of the type.

    Else its values are rounded to the dtype of the model before they are quantized.
    """
    spec, shape = QUANT_TYPES["int4"], tensor.shape
    if type_held(tensor.decoder, shape) == spec:
        everything = range(math.prod(shape))
        return tensor.decoder.repack(contents(tensor), shape, everything, NUMPY).parts
    values, dtype = decoded(tensor), tensor.dtype
    if dtype == "F32":
        said = json.loads((source / "config.json").read_bytes())
        dtype = {"float16": "F16"}.get(said.get("dtype", said.get("torch_dtype")), "BF16")
        values = floats.narrow(values, dtype)
    return codec_for(spec, dtype).encode(values.tobytes(), NUMPY).parts


def layers(store):
    everything = store.catalog.get(NAME).parse().layers
    return [layer for layer in everything if layer.media_type == MediaType.TENSOR]


def blob_data(store, name):
    """The data of a tensor's blob, without its header."""
    (layer,) = [layer for layer in layers(store) if layer.name == name]
    content = store.blobs.read(layer.ref, 1 << 24)
    return content[8 + int.from_bytes(content[:8], "little") :]
