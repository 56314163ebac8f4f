"""Checkpoints that compressed-tensors, ModelOpt and transformers wrote, with what they decode.

`tests/zoo/make_scaled.py` has made them, and says with which versions.
"""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest

from importer.codecs.cast import Cast
from importer.codecs.runtime import NUMPY
from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import MediaType, ModelName, Store
from store.tensorblob import read_header, read_tensors
from store.verify import verify
from tests.importer.builders import REPOSITORY, create
from tests.importer.sources.schemes.stored_types import types

WRITTEN = REPOSITORY / "fixtures" / "quantized"
NAME = ModelName.parse("m")
each = pytest.mark.parametrize("written", sorted(path.name for path in WRITTEN.iterdir()))
OURS = {
    "ct-mxfp4": "mxfp4",
    "ct-mxfp8": "mxfp8",
    "gpt-oss": "mxfp4",
    "mo-mxfp4": "mxfp4",
    "mo-mxfp8": "mxfp8",
    "mo-nvfp4": "nvfp4",
}
"""What becomes blobs of ours, and is of one type."""


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def expected(written):
    return json.loads((WRITTEN / written / "expected.json").read_text())


def parts(store, name=NAME):
    """Name -> bytes of each part of each tensor in the store."""
    found = {}
    for layer in store.catalog.get(name).parse().layers:
        if layer.media_type == MediaType.TENSOR:
            data = store.blobs.read(layer.ref, 1 << 24)
            with store.blobs.open(layer.digest) as file:
                header = read_header(store, file, layer.size, "x")
            for tensor in read_tensors(layer.name, header):
                found[tensor.name] = [
                    data[header.nbytes + part.begin :][: part.nbytes]
                    for part in tensor.parts.values()
                ]
    return found


def arrays(tensor):
    return [
        array.file.location.read_bytes()[array.offset :][: array.nbytes]
        for array in tensor.arrays
    ]


@each
def test_values_are_those_of_the_program_that_wrote_them(store, written):
    create(store, WRITTEN / written, recipe=parse_options("f32", allow_nonfinite=True))

    made = parts(store)
    for name, (dtype, shape, digest) in expected(written).items():
        (values,) = made[name]
        assert np.frombuffer(values, "<f4").size == np.prod(shape)
        assert types(store)[name] == ("F32", None, tuple(shape))
        if dtype != "F32":
            values = Cast("F32", dtype).encode(values, NUMPY).parts[0]
        assert hashlib.sha256(bytes(values)).hexdigest() == digest
    assert compare(store, NAME, WRITTEN / written).findings == ()


@each
def test_nothing_asked_every_byte_stays(store, written):
    source = WRITTEN / written
    create(store, source)

    made = parts(store)
    for tensor in read_inventory(source).tensors:
        if tensor.is_ours:
            before, after = arrays(tensor), made[tensor.name]
            assert before[:2] == after[:2]
            assert len(before) == len(after)
        else:
            for one in tensor.stored():
                assert made[one.name] == arrays(one)
    assert verify(store).findings == ()
    assert compare(store, NAME, source).findings == ()
    kinds = {kind for name, (kind, *_) in types(store).items() if name in expected(written)}
    if written in OURS:
        assert kinds == {OURS[written]}


def test_scales_of_all_experts_are_shared_out(store):
    create(store, WRITTEN / "hf-fp8-experts")

    shown = {one.name: one for one in describe(store, NAME).tensors}
    up = shown["model.layers.0.mlp.experts.2.up_proj.weight"]
    assert (up.type_name, up.shape, up.nbytes) == ("fp8 16x16", (16, 32), 16 * 32 + 2 * 4)
    assert not any("scale_inv" in name for name in shown)
    assert shown.keys() >= expected("hf-fp8-experts").keys()


def test_experts_of_modelopt_are_shown_as_transformers_holds_them(store):
    create(store, WRITTEN / "mo-nvfp4-experts")

    shown = {one.name: one for one in describe(store, NAME).tensors}
    up = shown["model.layers.0.feed_forward.experts.gate_up_proj"]
    count = 3 * 32 * 64
    assert (up.type_name, up.shape) == ("nvfp4 16x1", (3, 32, 64))
    assert up.nbytes == count // 2 + count // 16 + 4


@pytest.mark.parametrize(
    "written",
    [
        "ct-int4-asymmetric",
        "ct-nvfp4",
        "gpt-oss",
        "hf-fp8-block",
        "hf-fp8-experts",
        "mo-int4",
        "mo-mixed",
        "mo-nvfp4-experts",
    ],
)
@pytest.mark.parametrize("asked", ["repack", "int8", "bf16"])
def test_a_stored_model_gives_what_its_source_gives(store, written, asked):
    recipe = parse_options(asked, allow_nonfinite=True)
    create(store, WRITTEN / written)
    create(store, StoredModel(NAME), "again", recipe=recipe)
    create(store, WRITTEN / written, "direct", recipe=recipe)

    again, direct = (parts(store, ModelName.parse(name)) for name in ("again", "direct"))
    if written == "ct-nvfp4" and asked != "repack":
        # Its values were divided by a number of which the store has the reciprocal.
        assert again.keys() == direct.keys()
    else:
        assert again == direct
    assert compare(store, ModelName.parse("direct"), WRITTEN / written).findings == ()


def test_a_divisor_becomes_its_reciprocal_where_there_is_a_way_back(store):
    source = WRITTEN / "ct-nvfp4"
    create(store, source)

    made, divisors = parts(store), 0
    for tensor in read_inventory(source).tensors:
        if tensor.name not in expected("ct-nvfp4"):
            continue
        *_, divisor = arrays(tensor)
        reciprocal = np.float32(1) / np.frombuffer(divisor, "<f4")
        has_way_back = np.float32(1) / reciprocal == np.frombuffer(divisor, "<f4")
        assert tensor.is_ours == has_way_back.all()
        if tensor.is_ours:
            divisors += 1
            assert made[tensor.name][2] == reciprocal.tobytes()
    assert divisors


@pytest.mark.parametrize("written", ["mo-nvfp4", "mo-nvfp4-experts", "mo-fp8", "ct-fp8-static"])
def test_scales_of_activations_are_kept_and_told(store, written):
    request = ImportRequest(NAME, WRITTEN / written, parse_options("int8/32"))
    plan = plan_import(request, store)

    kept = [one for one in plan.tensors if one.name.endswith("input_scale")]
    assert len(kept) == (9 if "experts" in written else 7)
    assert all(one.target is None for one in kept)
    assert any("scaled activations" in warning for warning in plan.warnings)
    others = [one for one in plan.tensors if one not in kept]
    assert plan.parameters == sum(math.prod(one.shape) for one in others)
    create(store, WRITTEN / written)
    assert describe(store, NAME).parameters == plan.parameters


def test_an_older_export_of_modelopt_says_it_in_a_file_of_its_own(tmp_path):
    source = WRITTEN / "mo-int8"
    config = json.loads((source / "config.json").read_text())
    del config["quantization_config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name in ("model.safetensors", "hf_quant_config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())

    found = read_inventory(tmp_path)

    assert (found.scheme, found.is_decoded) == ("modelopt", True)
