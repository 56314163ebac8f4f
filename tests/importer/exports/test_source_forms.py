"""What a source held quantized goes out as the source had it: each array, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from importer.recipes.options import parse_options
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from store import ModelName, Store
from tests.importer.builders import CAUSAL, REPOSITORY, create, model
from tests.importer.exports.exporting import arrays, export, planned, tree

LAYER = "model.layers.0"
WRITTEN = REPOSITORY / "fixtures" / "quantized"
PACKED = REPOSITORY / "fixtures" / "packed"
SOURCES = sorted([*WRITTEN.iterdir(), *(path for path in PACKED.iterdir() if path.is_dir())])
OURS = ("ct-mxfp4", "ct-mxfp8", "ct-nvfp4", "mo-mixed", "mo-mxfp4", "mo-mxfp8", "mo-nvfp4")
"""Whose weights the store has in types of its own."""
MXFP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [1, 32]}}
NVFP4 = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
DEEPSEEK = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def some(seed, dtype, shape):
    """Codes or scales; of floats numbers that are finite and not 0."""
    count = int(np.prod(shape))
    if dtype == "BF16":
        data = np.random.default_rng(seed).integers(0x3C00, 0x3E00, count, "<u2").tobytes()
    elif dtype == "F32":
        data = np.random.default_rng(seed).uniform(0.5, 2, count).astype("<f4").tobytes()
    else:
        data = np.random.default_rng(seed).integers(1, 120, count, "u1").tobytes()
    return dtype, shape, data


def nvfp4(stem, seed, whole=()):
    """The arrays of a matrix of 32 x 64 as ModelOpt has them."""
    return {
        f"{stem}.weight": some(seed, "U8", (32, 32)),
        f"{stem}.weight_scale": some(seed + 1, "F8_E4M3", (32, 4)),
        f"{stem}.weight_scale_2": some(seed + 2, "F32", whole),
    }


def kept(directory):
    return {path: data for path, data in tree(directory).items() if "safetensors" not in path}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_what_other_programs_packed_comes_back(store, tmp_path, source):
    create(store, source)

    done = export(store, tmp_path / "stored")
    export(None, tmp_path / "straight", source=source)

    for out in ("stored", "straight"):
        assert arrays(tmp_path / out) == arrays(source)
        assert kept(tmp_path / out) == kept(source)
    assert not done.lossy
    assert not [note for note in done.notes if "go out decoded" in note]


@pytest.mark.parametrize("name", OURS)
def test_a_dtype_decodes_it_all(store, tmp_path, name):
    create(store, WRITTEN / name)

    export(store, tmp_path / "out", dtype="F32")

    assert {dtype for dtype, _, _ in arrays(tmp_path / "out").values()} == {"F32"}
    assert "quantization_config" not in (tmp_path / "out" / "config.json").read_text()
    assert not (tmp_path / "out" / "hf_quant_config.json").exists()


@pytest.mark.parametrize("stacked", [False, True])
def test_experts_of_nvfp4_come_back(store, tmp_path, stacked):
    weights = {}
    for expert in range(3):
        for number, way in enumerate(("gate_proj", "up_proj", "down_proj")):
            stem = f"model.layers.0.mlp.experts.{expert}.{way}"
            weights |= nvfp4(stem, 10 * expert + 3 * number)
    source = model(tmp_path / "in", weights, CAUSAL | NVFP4)
    create(store, source, recipe=parse_options(stacked=stacked))

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out") == arrays(source)
    assert kept(tmp_path / "out") == kept(source)


def test_mxfp4_of_deepseek_comes_back(store, tmp_path):
    stem = "layers.0.ffn.experts.0.w1"
    weights = {
        f"{stem}.weight": some(1, "I8", (32, 32)),
        f"{stem}.scale": some(2, "F8_E8M0", (32, 2)),
    }
    source = model(tmp_path / "in", weights, CAUSAL | DEEPSEEK)
    create(store, source)

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out") == arrays(source)
    assert kept(tmp_path / "out") == kept(source)


@pytest.mark.parametrize("where", ["config", "quantization_config"])
def test_experts_in_fp4_come_back_beside_what_was_quantized(store, tmp_path, where):
    expert, other = "layers.0.ffn.experts.0.w1", "layers.0.attn.wq_a"
    weights = {
        f"{expert}.weight": some(1, "I8", (32, 32)),
        f"{expert}.scale": some(2, "F8_E8M0", (32, 2)),
        f"{other}.weight": some(3, "F8_E4M3", (128, 128)),
        f"{other}.scale": some(4, "F8_E8M0", (1, 1)),
    }
    said = DEEPSEEK["quantization_config"]
    told = {"expert_dtype": "fp4", "quantization_config": said}
    if where == "quantization_config":
        told = {"quantization_config": said | {"expert_dtype": "fp4"}}
    source = model(tmp_path / "in", weights, CAUSAL | told)
    create(store, source, recipe=parse_options("mxfp4", recipe="uniform"))

    done = export(store, tmp_path / "out")

    found, expected = arrays(tmp_path / "out"), arrays(source)
    assert {name for name in found if name in expected} == {*weights} - {f"{other}.scale"}
    for name in (f"{expert}.weight", f"{expert}.scale"):
        assert found[name] == expected[name]
    assert found[f"{other}.weight"][:2] == ("BF16", (128, 128))
    assert any("some weights go out decoded" in note for note in done.notes)


def fp8_in_blocks(directory):
    """A model as DeepSeek 3 has it: FP8 with a scale for each 128 x 128, and plain weights."""
    weights = {"model.norm.weight": some(9, "BF16", (256,))}
    weights |= {f"{name}.weight": some(8, "BF16", (256, 256)) for name in PLAIN}
    modules = (f"{LAYER}.self_attn.q_proj", f"{LAYER}.mlp.up_proj", f"{LAYER}.mlp.experts.0.up")
    for seed, name in enumerate(modules):
        weights[f"{name}.weight"] = some(seed, "F8_E4M3", (256, 256))
        weights[f"{name}.weight_scale_inv"] = some(seed, "F32", (2, 2))
    return model(directory, weights, CAUSAL | DEEPSEEK)


PLAIN = ("lm_head", "model.embed_tokens")
ASKED = [
    *("int4", "mxfp4", "nvfp4", "mxfp8", "int8/32"),
    *("mxfp4 uniform", "nvfp4 uniform", "mxfp8 uniform", "f32"),
]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", ["fp8", "awq", "gptq", "ct-int4", "ct-fp8", "mo-fp8", "nf4"])
def test_what_ingot_quantized_is_decoded(store, tmp_path, kind, asked, again):
    source = {
        "awq": PACKED / "awq-4",
        "gptq": PACKED / "gptq-4",
        "nf4": PACKED / "nf4",
        "ct-int4": WRITTEN / "ct-int4-channel",
        "ct-fp8": WRITTEN / "ct-fp8-block",
        "mo-fp8": WRITTEN / "mo-fp8-block",
    }.get(kind) or fp8_in_blocks(tmp_path / "in")
    word, _, recipe = asked.partition(" ")
    create(store, source, "first", recipe=parse_options(word, recipe=recipe or None))
    if again:  # who copies a model does not say what was asked for before
        create(store, StoredModel(ModelName.parse("first")), "copy")

    done = export(store, tmp_path / "out", name="copy" if again else "first")

    dtypes = {dtype for dtype, _, _ in arrays(tmp_path / "out").values()}
    assert dtypes <= {"BF16", "F16", "F32"}
    assert all(name.endswith((".weight", ".bias")) for name in arrays(tmp_path / "out"))
    assert "quantization_config" not in (tmp_path / "out" / "config.json").read_text()
    assert not [note for note in done.notes if "go out decoded" in note]


def test_fp8_in_blocks_comes_back(store, tmp_path):
    source = fp8_in_blocks(tmp_path / "in")
    create(store, source)
    create(store, source, "repacked", recipe=parse_options("repack"))

    export(store, tmp_path / "out")
    export(store, tmp_path / "again", name="repacked")

    for out in ("out", "again"):
        assert arrays(tmp_path / out) == arrays(source)
        assert kept(tmp_path / out) == kept(source)


@pytest.mark.parametrize("kind", ["gpt-oss", "mo-mxfp4", "ct-mxfp4"])
def test_the_codes_of_the_source_stay_where_they_are_asked_for(store, tmp_path, kind):
    source = WRITTEN / kind
    create(store, source, recipe=parse_options("mxfp4", recipe="uniform"))

    export(store, tmp_path / "out")

    found, expected = arrays(tmp_path / "out"), arrays(source)
    packed = [name for name, one in expected.items() if one[0] == "U8"]
    assert packed
    assert all(found[name] == expected[name] for name in packed)
    assert (tmp_path / "out" / "config.json").read_bytes() == (
        source / "config.json"
    ).read_bytes()


def mxfp8(name, end="_scale_inv", dtype="F8_E8M0", shape=(32, 64)):
    """The arrays of a matrix, or of a stack of them."""
    groups = (*shape[:-1], shape[-1] // 32)
    return {name: some(3, "F8_E4M3", shape), name + end: some(4, dtype, groups)}


@pytest.mark.parametrize(
    ("weights", "kind"),
    [
        (mxfp8(f"{LAYER}.self_attn.q_proj.weight"), "mxfp8"),
        (mxfp8(f"{LAYER}.mlp.experts.gate_up_proj", shape=(3, 32, 64)), "mxfp8"),
        # transformers calls no array so: nothing would name it again.
        (mxfp8(f"{LAYER}.self_attn.q_proj.weight", dtype="U8"), "fp8 1x32"),
        (mxfp8(f"{LAYER}.self_attn.q_proj.weight", end="_scale"), "fp8 1x32"),
        (mxfp8("lm_head.weight"), "fp8 1x32"),
        (mxfp8(f"{LAYER}.self_attn.o_proj.weight"), "fp8 1x32"),
    ],
)
def test_mxfp8_of_transformers_comes_back(store, tmp_path, weights, kind):
    said = MXFP8["quantization_config"] | {"modules_to_not_convert": ["o_proj"]}
    source = model(tmp_path / "in", weights, CAUSAL | {"quantization_config": said})
    create(store, source)

    done = export(store, tmp_path / "out")
    export(None, tmp_path / "straight", source=source)

    assert {one.stored_as for one in read_inventory(source).tensors} == {kind}
    for out in ("out", "straight"):
        assert arrays(tmp_path / out) == arrays(source)
        assert kept(tmp_path / out) == kept(source)
    assert not [note for note in done.notes if "go out decoded" in note]


def test_what_transformers_does_not_convert_is_decoded(store, tmp_path):
    weights = mxfp8(f"{LAYER}.self_attn.q_proj.weight") | {
        "lm_head.weight": some(5, "BF16", (32, 64))
    }
    source = model(tmp_path / "in", weights, CAUSAL | MXFP8)
    create(store, source, recipe=parse_options("mxfp8", recipe="uniform"))

    export(store, tmp_path / "out")

    assert "lm_head.weight_scale_inv" not in arrays(tmp_path / "out")


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_a_scale_of_another_shape_comes_back_too(store, tmp_path, shape):
    weights = nvfp4("model.layers.0.mlp.up_proj", 1, shape)
    source = model(tmp_path / "in", weights, CAUSAL | NVFP4)
    create(store, source)

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out") == arrays(source)


def test_types_that_the_configuration_does_not_say_are_decoded(store, tmp_path):
    create(store, WRITTEN / "mo-nvfp4", "first")
    create(store, StoredModel(ModelName.parse("first")), recipe=parse_options("mxfp8"))

    export(store, tmp_path / "out")

    names = [name for name in arrays(tmp_path / "out") if "weight_scale" in name]
    assert not names
    assert "quantization_config" not in (tmp_path / "out" / "config.json").read_text()


def test_what_goes_out_in_two_forms_is_said(store, tmp_path):
    rules = ["*.q_proj.weight=int4/32"]
    create(store, WRITTEN / "mo-nvfp4", recipe=parse_options(rules=rules))

    _, mixed = planned(store, tmp_path / "out")
    _, decoded = planned(store, tmp_path / "out", dtype="BF16")

    assert any("some weights go out decoded" in note for note in mixed.write.notes)
    assert not any("go out decoded" in note for note in decoded.write.notes)
