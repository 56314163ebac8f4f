"""The format mlx: what mlx-lm writes of the same source, array for array, bit for bit."""

from __future__ import annotations

import json
import re
import struct

import numpy as np
import pytest

from fixtures.mlx.digests import digest, types_of
from importer.exports.mlx_models import MODELS as KNOWN
from importer.recipes.options import parse_options
from store import ModelName, Store
from store.errors import InputError, UnsupportedError
from tests.importer.builders import MODELS, REPOSITORY, create, model
from tests.importer.exports.exporting import arrays, export, planned, tree
from tests.importer.exports.mlx_checkpoints import CASES, LAYERS, SOURCES, checkpoint
from tests.importer.exports.mlx_checkpoints import MODELS as FAMILIES
from tests.importer.sources.schemes.mlx_sources import X, config, mx, quantized
from tests.importer.sources.schemes.mlx_sources import save as save_mlx

GOLDEN = json.loads((REPOSITORY / "fixtures" / "mlx" / "golden.json").read_bytes())


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def asked(case):
    """The options of an export that are a case."""
    options, _ = CASES[case]
    if "recipe" in options:
        return {"recipe": case}
    return {"q": case} if options else {}


def told(directory):
    return json.loads((directory / "config.json").read_bytes())


@pytest.mark.parametrize("suffix", SOURCES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_array_is_the_one_that_mlx_lm_writes(tmp_path, family, suffix):
    source = checkpoint(tmp_path / "in", family, **SOURCES[suffix])
    for number, case in enumerate(CASES):
        out = tmp_path / str(number)
        export(None, out, "mlx", source=source, **asked(case))

        expected, found = GOLDEN[f"{family}{suffix} {case}"], arrays(out)
        assert len(found) == expected["arrays"], case
        assert types_of(told(out).get("quantization", {}), found) == expected["quantization"]
        assert digest(found) == expected["sha256"], case


@pytest.mark.parametrize("case", ["plain", "int4", "mxfp4"])
def test_a_stored_model_gives_what_its_source_gives(store, tmp_path, case):
    source = checkpoint(tmp_path / "in", "qwen3_moe")
    create(store, source)
    export(None, tmp_path / "direct", "mlx", source=source, **asked(case))

    export(store, tmp_path / "stored", "mlx", **asked(case))

    assert tree(tmp_path / "stored") == tree(tmp_path / "direct")


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("case", ["int4", "int6/128", "mxfp4", "nvfp4", "mxfp8"])
@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_what_the_store_quantized_is_not_recoded(store, tmp_path, family, case, stacked):
    """With the preset `mlx` a model is quantized once, on its way in or on its way out."""
    source = checkpoint(tmp_path / "in", family)
    create(store, source, recipe=parse_options(case, recipe="mlx", stacked=stacked))

    export(store, tmp_path / "out", "mlx")

    expected, found = GOLDEN[f"{family} {case}"], arrays(tmp_path / "out")
    assert digest(found) == expected["sha256"]
    declared = told(tmp_path / "out")["quantization"]
    assert types_of(declared, found) == expected["quantization"]


def test_the_default_recipe_gives_entries_of_its_own(store, tmp_path):
    create(store, checkpoint(tmp_path / "in", "llama"), recipe=parse_options("int4"))

    export(store, tmp_path / "out", "mlx")

    found = told(tmp_path / "out")
    usual = found["quantization"]
    assert found["quantization_config"] == usual
    assert {key: usual[key] for key in ("bits", "group_size", "mode")} == {
        "bits": 4,
        "group_size": 32,
        "mode": "affine",
    }
    modules = [f"model.layers.{i}.mlp.down_proj" for i in range(LAYERS)]
    entry = {"bits": 8, "group_size": 64, "mode": "affine"}
    assert {key: usual[key] for key in modules} == dict.fromkeys(modules, entry)
    assert len(usual) == 3 + LAYERS
    packed = {name for name in arrays(tmp_path / "out") if name.endswith(".scales")}
    assert "model.embed_tokens.scales" not in packed
    assert len(packed) == 7 * LAYERS + 1


def test_the_configuration_is_that_of_mlx_lm(tmp_path):
    source = checkpoint(tmp_path / "in", "llama", vision_config={"a": 1})
    export(None, tmp_path / "out", "mlx", source=source, q="int4")

    found = told(tmp_path / "out")
    expected = told(source) | {"eos_token_id": [2, 7]}
    for key in ("_name_or_path", "vision_config"):
        del expected[key]
    block = {"group_size": 64, "bits": 4, "mode": "affine"}
    expected |= {"quantization": block, "quantization_config": block}
    assert found == expected
    text = (tmp_path / "out" / "config.json").read_text()
    assert text.rstrip("\n") == json.dumps(dict(sorted(expected.items())), indent=4)


def test_the_index_counts_logical_parameters(tmp_path):
    source = checkpoint(tmp_path / "in", "qwen3_moe")
    export(None, tmp_path / "plain", "mlx", source=source)
    export(None, tmp_path / "int4", "mlx", source=source, q="int4", shard_size=20_000)

    plain, packed = (
        json.loads((tmp_path / name / "model.safetensors.index.json").read_bytes())
        for name in ("plain", "int4")
    )
    for index, name in ((plain, "plain"), (packed, "int4")):
        found = arrays(tmp_path / name)
        assert index["metadata"]["total_size"] == sum(len(one[2]) for one in found.values())
        assert list(index["weight_map"]) == sorted(found)
    assert plain["metadata"]["total_parameters"] == packed["metadata"]["total_parameters"]
    assert len(set(packed["weight_map"].values())) > 3


def test_mlx_in_mlx_out(store, tmp_path):
    kinds = {
        X: ("affine", 4, 64),
        "model.embed_tokens": ("affine", 6, 128),
        "m": ("mxfp4", 4, 32),
    }
    packed = {}
    for stem, kind in kinds.items():
        packed |= quantized(stem, (128, 256), kind)
    packed["model.norm.weight"] = mx.ones((128,)).astype(mx.bfloat16)
    modules = {
        "model.embed_tokens": {"bits": 6, "group_size": 128, "mode": "affine"},
        "m": {"bits": 4, "group_size": 32, "mode": "mxfp4"},
    }
    source = save_mlx(tmp_path / "in", packed, config("affine", 4, 64, **modules))
    create(store, source)

    export(store, tmp_path / "out", "mlx")

    assert arrays(tmp_path / "out") == arrays(source)
    found = told(tmp_path / "out")["quantization"]
    defaults = {key: found[key] for key in ("bits", "group_size", "mode")}
    for stem, (mode, bits, size) in kinds.items():
        entry = {"bits": bits, "group_size": size, "mode": mode}
        assert {**defaults, **found.get(stem, {})} == entry


def test_an_export_is_a_source_again(store, tmp_path):
    """hf -> int4 in the store -> mlx -> the store: the same blobs."""
    source = checkpoint(tmp_path / "in", "llama")
    create(store, source, "one", recipe=parse_options("int4", recipe="mlx"))
    export(store, tmp_path / "out", "mlx", name="one")

    create(store, tmp_path / "out", "two")

    one, two = (
        {
            layer.name: layer.digest
            for layer in store.catalog.get(ModelName.parse(name)).parse().layers
            if layer.name.endswith(".weight") and "rotary" not in layer.name
        }
        for name in ("one", "two")
    )
    assert one == two


@pytest.mark.parametrize("name", ["mo-nvfp4", "ct-nvfp4"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_scale_of_the_whole_matrix_is_decoded(store, tmp_path, name, is_stored):
    source = REPOSITORY / "fixtures" / "quantized" / name
    create(store, source)
    create(store, source, "wide", recipe=parse_options("bf16"))
    export(store, tmp_path / "expected", "mlx", name="wide")

    done = export(store, tmp_path / "out", "mlx", source=None if is_stored else source)

    assert arrays(tmp_path / "out") == arrays(tmp_path / "expected")
    assert "quantization" not in told(tmp_path / "out")
    (line,) = done.lossy
    assert re.fullmatch(r"\d+ tensors of nvfp4.* are decoded and rounded: .*", line)


def test_experts_with_a_scale_each_are_decoded(store, tmp_path):
    packed = {}
    for number in range(4):
        stem = f"model.layers.0.mlp.experts.{number}.up_proj"
        packed |= {
            f"{stem}.weight": ("U8", (64, 32)),
            f"{stem}.weight_scale": ("F8_E4M3", (64, 4), bytes(range(0x20, 0x60)) * 4),
            f"{stem}.weight_scale_2": ("F32", (), struct.pack("<f", 2.0**-number)),
        }
    said = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    facts = {"model_type": "qwen3_moe", "torch_dtype": "bfloat16", "quantization_config": said}
    source = model(tmp_path / "in", packed, facts)
    create(store, source, recipe=parse_options(None, stacked=True))
    create(store, source, "wide", recipe=parse_options("bf16"))

    for name in ("m", "wide"):
        export(store, tmp_path / name, "mlx", name=name)

    found = arrays(tmp_path / "m")
    assert found == arrays(tmp_path / "wide")
    assert {one[:2] for one in found.values()} == {("BF16", (4, 64, 64))}


def test_a_scale_of_the_whole_matrix_is_quantized_anew(store, tmp_path):
    source = REPOSITORY / "fixtures" / "quantized" / "mo-nvfp4"
    create(store, source, "wide", recipe=parse_options("bf16"))
    export(store, tmp_path / "expected", "mlx", name="wide", q="nvfp4")

    done = export(None, tmp_path / "out", "mlx", source=source, q="nvfp4")

    found = arrays(tmp_path / "out")
    assert found == arrays(tmp_path / "expected")
    assert any(name.endswith(".scales") for name in found)
    assert told(tmp_path / "out")["quantization"]["mode"] == "nvfp4"
    assert any("nvfp4 are quantized again" in line for line in done.lossy)


def test_experts_of_several_types_are_refused(store, tmp_path):
    source = checkpoint(tmp_path / "in", "mixtral")
    rules = ["*.experts.1.w1.weight=int8"]
    create(store, source, recipe=parse_options("int4", recipe="mlx", rules=rules))

    with pytest.raises(UnsupportedError, match="several types"):
        planned(store, tmp_path / "out", "mlx")


def test_missing_experts_are_refused(tmp_path):
    shape = ("BF16", (64, 64))
    experts = {f"model.layers.0.mlp.experts.{i}.up_proj.weight": shape for i in (0, 2)}
    source = model(tmp_path / "in", experts, {"model_type": "qwen3_moe"})

    with pytest.raises(InputError, match="without gaps"):
        planned(None, tmp_path / "out", "mlx", source=source)


@pytest.mark.parametrize("family", ["mamba", "qwen3_next", "", "\x1b[2J"])
def test_an_unknown_architecture_is_named(tmp_path, family):
    source = model(tmp_path / "in", config={"model_type": family})

    with pytest.raises(UnsupportedError) as caught:
        planned(None, tmp_path / "out", "mlx", source=source)

    assert caught.value.code == "E_EXPORT_FORMAT"
    assert "llama" in str(caught.value)


@pytest.mark.parametrize("name", ["tiny-pipeline", "single-file"])
def test_what_is_no_language_model_is_refused(tmp_path, name):
    source = MODELS / name

    with pytest.raises(UnsupportedError) as caught:
        planned(None, tmp_path / "out", "mlx", source=source)

    assert caught.value.code == "E_EXPORT_FORMAT"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_codes_that_mlx_lacks_are_decoded_and_that_is_a_loss(store, tmp_path, dtype):
    """FP8 with a scale for each block becomes the dtype that the model computes in."""
    name = "model.layers.0.mlp.up_proj.weight"
    tensors = {
        name: ("F8_E4M3", (256, 256)),
        f"{name}_scale_inv": ("F32", (2, 2), np.full(4, 0.5, "<f4").tobytes()),
        "model.norm.weight": ("BF16", (256,)),
    }
    declared = {
        "quantization_config": {
            "quant_method": "fp8",
            "weight_block_size": [128, 128],
            "activation_scheme": "dynamic",
        },
        "model_type": "llama",
        "dtype": dtype,
    }
    create(store, model(tmp_path / "in", tensors, declared))

    done = export(store, tmp_path / "out", "mlx")

    assert any("decoded and rounded" in line for line in done.lossy)
    assert not any("stay as they are" in note for note in done.notes)
    found = arrays(tmp_path / "out")
    assert {key: one[:2] for key, one in found.items()} == {
        name: ({"bfloat16": "BF16", "float16": "F16"}[dtype], (256, 256)),
        "model.norm.weight": ("BF16", (256,)),
    }
    assert "quantization" not in told(tmp_path / "out")
    assert "quantization_config" not in told(tmp_path / "out")
    with pytest.raises(InputError) as caught:
        planned(store, tmp_path / "strict", "mlx", strict=True)
    assert caught.value.code == "E_EXPORT_LOSSY"


def test_the_table_of_the_preset_and_the_table_of_names_agree():
    """Routers that a class keeps, or wants in 8 bits, are so in both."""
    text = (REPOSITORY / "importer" / "recipes" / "presets" / "mlx.toml").read_text()
    lists = re.findall(
        r'type = "([^"]+)".*?when = \{ architecture = \[([^]]*)\]', text, re.DOTALL
    )
    found = {
        kind: set(re.findall(r'"(\w+)"', names)) for kind, names in lists if kind == "keep"
    }
    in_8 = {
        name
        for kind, names in lists
        if kind == "int8/64"
        for name in re.findall(r'"(\w+)"', names)
    }

    assert found["keep"] == {name for name, one in KNOWN.items() if one.keeps_router}
    assert in_8 == {name for name, one in KNOWN.items() if one.in_8_bits}
