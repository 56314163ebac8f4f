"""The format hf: what `from_pretrained` loads, with the bytes that the source had."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save

from importer.codecs.spec import parse_target
from importer.recipes.options import parse_options
from importer.sources.location import StoredModel
from store import ModelName, Store
from store.errors import InputError, UnsupportedError, UsageError
from tests.importer.builders import (
    CAUSAL,
    FIXTURES,
    MODELS,
    create,
    handmade,
    model,
    safetensors,
    tensor_layer,
    write,
)
from tests.importer.exports.exporting import arrays, export, header_of, planned, tree
from tests.importer.sources.schemes.mlx_sources import X, config, mx, quantized
from tests.importer.sources.schemes.mlx_sources import save as save_mlx

UP = "model.layers.0.mlp.up_proj.weight"
BIG = {UP: ("BF16", (64, 128)), "model.norm.weight": ("F32", (128,))}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def bits(values, dtype):
    """The bytes of floats, of their own bits for BF16."""
    if dtype == "BF16":
        return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return np.asarray(values, {"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def weights(seed, shape, dtype="BF16"):
    rows = np.random.default_rng(seed).normal(size=shape)
    return dtype, shape, bits(rows, dtype)


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("experts", ["packed", "stacked"])
def test_a_plain_model_comes_out_as_it_went_in(store, tmp_path, name, experts):
    source = MODELS / name
    create(store, source, recipe=parse_options(stacked=experts == "stacked"))

    done = export(store, tmp_path / "out")

    create(store, source, "again", recipe=parse_options())
    create(store, tmp_path / "out", "out", recipe=parse_options())
    assert _layers(store, "out") == _layers(store, "again")
    assert {f.path for f in done.files} == set(tree(tmp_path / "out"))


def _layers(store, name):
    manifest = store.catalog.get(ModelName.parse(name)).parse()
    return [(layer.media_type, layer.name, layer.digest) for layer in manifest.layers]


def test_a_file_is_what_the_library_writes(store, tmp_path):
    tensors = {
        "b.weight": np.arange(6, dtype="<f4").reshape(2, 3),
        "a.weight": np.arange(4, dtype="<f2"),
        "c.ids": np.arange(3, dtype="<i8"),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 4), "<f4"),
        'quoted "name" é': np.zeros((1,), "<f4"),
    }
    content = save(tensors, {"format": "pt"})
    write(tmp_path / "in", {"model.safetensors": content, "config.json": CAUSAL})
    create(store, tmp_path / "in")

    export(store, tmp_path / "out")

    assert (tmp_path / "out" / "model.safetensors").read_bytes() == content


def test_shards_and_index_are_those_of_huggingface_hub(store, tmp_path):
    from huggingface_hub import split_state_dict_into_shards_factory

    shapes = {f"model.layers.{i}.w.weight": ("F32", (8, 1 + i % 5)) for i in range(23)}
    create(store, model(tmp_path / "in", shapes | {"lm_head.weight": ("F32", (64, 8))}))

    export(store, tmp_path / "out", shard_size=300)

    found = arrays(tmp_path / "out")
    split = split_state_dict_into_shards_factory(
        {name: len(found[name][2]) for name in sorted(found)},
        get_storage_size=lambda nbytes: nbytes,
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=300,
    )
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_bytes())
    assert index == {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    for name, tensors in split.filename_to_tensors.items():
        header, _, _ = header_of(tmp_path / "out" / name)
        assert header.keys() == {"__metadata__", *tensors}
    assert arrays(tmp_path / "out") == arrays(tmp_path / "in")


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("kind", ["int4", "int6/128", "int8", "nvfp4", "mxfp4", "mxfp8"])
def test_what_we_quantized_is_decoded_as_mlx_decodes_it(store, tmp_path, dtype, kind):
    tensors = {UP: weights(1, (64, 128), dtype), "model.norm.weight": ("F32", (128,))}
    source = model(tmp_path / "in", tensors, CAUSAL | {"torch_dtype": "x"})
    create(store, source, recipe=parse_options(kind))

    export(store, tmp_path / "out")

    spec = parse_target(kind)
    values = mx.array(np.frombuffer(tensors[UP][2], "<u2" if dtype != "F32" else "<f4"))
    values = values.view(getattr(mx, MLX[dtype])).reshape(64, 128)
    parts = mx.quantize(values, spec.group_size, spec.bits, spec.mode.value)
    decoded = mx.dequantize(
        *parts,
        group_size=spec.group_size,
        bits=spec.bits,
        mode=spec.mode.value,
        dtype=values.dtype,
    )
    found = arrays(tmp_path / "out")
    assert found[UP] == (dtype, (64, 128), bytes(memoryview(decoded.view(mx.uint8))))
    assert found["model.norm.weight"] == arrays(source)["model.norm.weight"]
    assert tree(tmp_path / "out")["config.json"] == tree(source)["config.json"]


MLX = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def test_the_experts_of_stacks_have_their_own_names_again(store, tmp_path):
    experts = {
        f"model.layers.1.mlp.experts.{i}.{part}_proj.weight": weights(i, (64, 64))
        for i in range(12)
        for part in ("up", "down")
    }
    source = model(tmp_path / "in", experts)
    for name, asked in {"a": "int8", "b": None}.items():
        for stacked in (False, True):
            options = parse_options(asked, stacked=stacked)
            create(store, source, f"{name}{stacked}", recipe=options)
            export(store, tmp_path / f"{name}{stacked}", name=f"{name}{stacked}")

    assert arrays(tmp_path / "bTrue") == arrays(source)
    assert tree(tmp_path / "aTrue") == tree(tmp_path / "aFalse")


def test_what_the_source_held_as_mlx_goes_out_as_it_came(store, tmp_path):
    kinds = {X: ("affine", 4, 64), "model.embed_tokens": ("affine", 6, 128)}
    packed = {}
    for stem, kind in kinds.items():
        packed |= quantized(stem, (128, 256), kind)
    packed["model.norm.weight"] = mx.ones((128,)).astype(mx.bfloat16)
    modules = {"model.embed_tokens": {"bits": 6, "group_size": 128}}
    source = save_mlx(tmp_path / "in", packed, config("affine", 4, 64, **modules))
    create(store, source)

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out") == arrays(source)
    assert tree(tmp_path / "out")["config.json"] == tree(source)["config.json"]


def test_a_dtype_decodes_what_the_source_held_packed(store, tmp_path):
    packed = quantized(X, (128, 256), ("affine", 4, 64))
    create(store, save_mlx(tmp_path / "in", packed, config("affine", 4, 64)))

    export(store, tmp_path / "out", dtype="F16")

    assert {name: one[:2] for name, one in arrays(tmp_path / "out").items()} == {
        f"{X}.weight": ("F16", (128, 256))
    }
    assert "quantization" not in json.loads(tree(tmp_path / "out")["config.json"])


def test_a_requantized_model_of_mlx_is_decoded(store, tmp_path):
    packed = quantized(X, (128, 256), ("affine", 4, 64))
    create(store, save_mlx(tmp_path / "in", packed, config("affine", 4, 64)), "big")
    create(store, StoredModel(ModelName.parse("big")), recipe=parse_options("int8"))

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out").keys() == {f"{X}.weight"}
    assert "quantization" not in json.loads(tree(tmp_path / "out")["config.json"])


def test_the_arrays_of_a_scheme_stay_and_so_does_what_describes_them(store, tmp_path):
    gptq = {
        "model.layers.0.q.qweight": ("I32", (8, 64)),
        "model.layers.0.q.qzeros": ("I32", (1, 8)),
        "model.layers.0.q.scales": ("F16", (1, 64)),
        "model.layers.0.q.g_idx": ("I32", (64,), bytes(256)),
    }
    declared = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64}}
    source = model(tmp_path / "in", gptq, CAUSAL | declared, quantize_config__json=declared)
    create(store, source)

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out") == arrays(source)
    for name in ("config.json", "quantize_config.json"):
        assert tree(tmp_path / "out")[name] == tree(source)[name]


def test_a_dtype_changes_floats_and_what_the_configuration_says_of_them(store, tmp_path):
    tensors = {
        UP: weights(1, (4, 8), "F32"),
        "ids": ("I64", (3,)),
        "norm.weight": ("F16", (4,), bits([1, 2, 3, 4], "F16")),
    }
    told = CAUSAL | {
        "torch_dtype": "float32",
        "rms_norm_eps": 1e-05,
        "text_config": {"dtype": "float32", "big": 12345678901234567890},
        "comment": "dtype",
    }
    source = model(tmp_path / "in", tensors, told)
    create(store, source)

    export(store, tmp_path / "out", dtype="BF16")

    found = arrays(tmp_path / "out")
    rounded = mx.array(np.frombuffer(tensors[UP][2], "<f4")).astype(mx.bfloat16)
    assert found[UP] == ("BF16", (4, 8), bytes(memoryview(rounded.view(mx.uint8))))
    assert found["ids"] == arrays(source)["ids"]
    assert found["norm.weight"] == ("BF16", (4,), bits([1, 2, 3, 4], "BF16"))
    changed = told | {"torch_dtype": "bfloat16"}
    changed["text_config"] = told["text_config"] | {"dtype": "bfloat16"}
    assert json.loads(tree(tmp_path / "out")["config.json"]) == changed


def test_a_value_too_large_for_the_dtype_is_an_error(store, tmp_path):
    create(store, model(tmp_path / "in", {UP: ("F32", (1, 2), bits([1, 1e30], "F32"))}))

    with pytest.raises(InputError, match="too large") as caught:
        export(store, tmp_path / "out", dtype="F16")

    assert caught.value.code == "E_QUANT_NONFINITE"
    assert not (tmp_path / "out").exists()


def test_an_adapter_keeps_the_name_that_peft_looks_for(store, tmp_path):
    files = {
        "adapter_model.safetensors": safetensors({"base.lora_A.weight": ("F32", (2, 4))}),
        "adapter_config.json": {"peft_type": "LORA"},
    }
    create(store, write(tmp_path / "in", files))

    export(store, tmp_path / "out")

    assert tree(tmp_path / "out").keys() == files.keys()


def test_types_of_the_store_are_not_for_hf(store, tmp_path):
    create(store, model(tmp_path / "in"))

    with pytest.raises(UsageError) as caught:
        planned(store, tmp_path / "out", q="int4")

    assert caught.value.code == "E_EXPORT_TYPE"


def test_a_dtype_for_arrays_that_nobody_decodes_is_unsupported(store, tmp_path):
    bitnet = {
        "model.layers.0.q.weight": ("U8", (16, 64)),
        "model.layers.0.q.weight_scale": ("BF16", (1,)),
    }
    declared = {"quantization_config": {"quant_method": "bitnet"}}
    create(store, model(tmp_path / "in", bitnet, CAUSAL | declared), as_arrays=True)

    with pytest.raises(UnsupportedError):
        planned(store, tmp_path / "out", dtype="F32")


PATHS = {
    "a path that leaves": ["../config.json"],
    "an absolute path": ["/tmp/x.json"],
    "a hidden part": ["a/../../x.json"],
    "the file of the weights": ["model.safetensors"],
    "one that differs in case": ["a.json", "A.json"],
    "a directory and a file": ["a", "a/b.json"],
    "a reserved name": ["nul"],
    "a control code": ["a\x1b[2J.json"],
    "too long a part": ["x" * 300 + ".json"],
}


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
def test_hostile_names_of_files_are_refused(store, tmp_path, paths):
    tensor = tensor_layer(safetensors({"w": ("F32", (1,))}), "w", dtype="F32", shape=(1,))
    kept = [
        ("application/vnd.ollama.image.json", b"{%d}" % number, {"name": path})
        for number, path in enumerate(paths)
    ]
    handmade(store, [tensor, *kept])
    before = set(tmp_path.rglob("*"))

    with pytest.raises(InputError) as caught:
        planned(store, tmp_path / "out")

    assert caught.value.code in {"E_NAME", "E_NAME_COLLISION"}
    assert set(tmp_path.rglob("*")) == before


def test_what_files_say_of_themselves_goes_along(store, tmp_path):
    said = {"format": "pt", "author": "me", "é": "<&>"}
    content = safetensors({"a.weight": ("F32", (2,))}, said)
    create(store, write(tmp_path / "in", {"model.safetensors": content, "config.json": CAUSAL}))

    export(store, tmp_path / "out")

    header, _, _ = header_of(tmp_path / "out" / "model.safetensors")
    assert header["__metadata__"] == said


def test_the_modules_of_a_sentence_model_have_their_directories_again(store, tmp_path):
    dense = safetensors({"linear.weight": ("F32", (4, 8)), "linear.bias": ("F32", (4,))})
    files = {
        "modules.json": "[]",
        "config.json": CAUSAL,
        "model.safetensors": safetensors({"a.weight": ("F32", (2, 2))}),
        "2_Dense/config.json": {"in_features": 8},
        "2_Dense/model.safetensors": dense,
    }
    source = write(tmp_path / "in", files)
    create(store, source)

    export(store, tmp_path / "out")

    assert arrays(tmp_path / "out") == arrays(source)
    assert tree(tmp_path / "out").keys() == tree(source).keys()
