"""What becomes of sources that MLX wrote, bit for bit."""

from __future__ import annotations

import pytest

from importer.codecs.spec import parse_target
from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.recipes.recipe import Recipe
from importer.recipes.rule import Rule
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import InputError
from store.verify import verify
from tests.importer.builders import create, write
from tests.importer.sources.schemes.mlx_sources import (
    DTYPES,
    PARTS,
    SUFFIXES,
    X,
    config,
    data,
    loaded,
    quantized,
    save,
)
from tests.importer.sources.schemes.stored_types import types

mx = pytest.importorskip("mlx.core")

NAME = ModelName.parse("m")
AFFINE = [(("affine", bits, size)) for bits in (2, 3, 4, 5, 6, 8) for size in (32, 64, 128)]
MODES = [*AFFINE, (("mxfp4", 4, 32)), (("nvfp4", 4, 16)), ("mxfp8", 8, 32)]
each_mode = pytest.mark.parametrize("kind", MODES, ids=str)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


@each_mode
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_and_scales_are_kept_to_the_bit(store, tmp_path, kind, dtype):
    mode, bits, size = kind
    arrays = quantized(X, (48, 256), kind, dtype)
    arrays[f"{X}.bias"] = mx.ones((48,), DTYPES[dtype])
    source = save(tmp_path / "s", arrays, config(mode, bits, size))

    create(store, source)

    made = loaded(store)
    assert made.keys() == {
        *(f"{X}.weight{suffix}" for suffix in SUFFIXES[: len(arrays) - 1]),
        f"{X}.bias",
    }
    for part, suffix in zip(PARTS[: len(arrays) - 1], SUFFIXES, strict=False):
        assert data(made[f"{X}.weight{suffix}"]) == data(arrays[f"{X}.{part}"])
    name = f"int{bits}" if mode == "affine" else mode
    assert types(store)[f"{X}.weight"] == (name, size, (48, 256))
    found = describe(store, NAME)
    assert (found.parameters, found.prequantized) == (48 * 256 + 48, None)
    assert verify(store).findings == ()
    assert compare(store, NAME, source).findings == ()

    x = mx.random.normal((2, 256)).astype(DTYPES[dtype])
    theirs = [arrays[f"{X}.{part}"] for part in PARTS[: len(arrays) - 1]]
    ours = [made[f"{X}.weight{suffix}"] for suffix in SUFFIXES[: len(arrays) - 1]]
    products = (
        mx.quantized_matmul(x, *one, transpose=True, group_size=size, bits=bits, mode=mode)
        for one in (theirs, ours)
    )
    assert mx.array_equal(*products)


@each_mode
@pytest.mark.parametrize("dtype", DTYPES)
def test_decoded_values_are_mlxs(store, tmp_path, kind, dtype):
    mode, bits, size = kind
    arrays = quantized(X, (48, 256), kind, dtype)
    source = save(tmp_path / "s", arrays, config(mode, bits, size))
    values = mx.dequantize(*arrays.values(), group_size=size, bits=bits, mode=mode)

    for target, floats in (("bf16", mx.bfloat16), ("f16", mx.float16)):
        create(store, source, recipe=parse_options(target), name=target)
        made = loaded(store, ModelName.parse(target))[f"{X}.weight"]
        assert made.dtype == floats
        assert data(made) == data(values.astype(floats))
        assert compare(store, ModelName.parse(target), source).findings == ()


@each_mode
@pytest.mark.parametrize("dtype", DTYPES)
def test_f32_is_exact(store, tmp_path, kind, dtype):
    """And not what MLX rounds to the dtype of scales and biases, twice."""
    mode, bits, size = kind
    arrays = quantized(X, (48, 256), kind, dtype)
    source = save(tmp_path / "s", arrays, config(mode, bits, size))
    codes, *small = arrays.values()
    if mode == "affine":
        small = [part.astype(mx.float32) for part in small]
    values = mx.dequantize(codes, *small, group_size=size, bits=bits, mode=mode)

    create(store, source, name="kept")
    create(store, source, recipe=parse_options("f32"))
    create(store, StoredModel(ModelName.parse("kept")), "again", recipe=parse_options("f32"))

    made = loaded(store)[f"{X}.weight"]
    assert made.dtype == mx.float32
    assert data(made) == data(values.astype(mx.float32))
    assert data(loaded(store, ModelName.parse("again"))[f"{X}.weight"]) == data(made)
    assert compare(store, NAME, source).findings == ()


@each_mode
def test_another_type_is_made_of_the_decoded_values(store, tmp_path, kind):
    mode, bits, size = kind
    arrays = quantized(X, (48, 256), kind)
    source = save(tmp_path / "s", arrays, config(mode, bits, size))
    made_of = mx.dequantize(*arrays.values(), group_size=size, bits=bits, mode=mode)
    recipe = Recipe("r", (Rule(("*",), parse_target("int8/32"), "all"),))

    create(store, source, recipe=recipe)

    made = loaded(store)
    same = (mode, bits, size) == (("affine", 8, 32))
    expected = list(arrays.values()) if same else mx.quantize(made_of, 32, 8)
    for suffix, array in zip(SUFFIXES, expected, strict=True):
        assert data(made[f"{X}.weight{suffix}"]) == data(array)
    request = ImportRequest(NAME, source, recipe)
    warnings = plan_import(request, store).warnings
    assert len([one for one in warnings if "a second time" in one]) == (not same)
    assert compare(store, NAME, source).findings == ()


def test_embeddings_experts_and_modules_of_their_own(store, tmp_path):
    experts = "model.layers.0.mlp.switch_mlp"
    arrays = {
        **quantized("model.embed_tokens", (64, 128), ("affine", 6, 64)),
        **quantized(f"{experts}.up_proj", (3, 32, 128), ("affine", 4, 64)),
        **quantized(f"{experts}.down_proj", (3, 128, 64), ("mxfp4", 4, 32)),
        **quantized("model.layers.0.mlp.gate", (4, 128), ("affine", 8, 64)),
        **quantized("model.layers.0.attn.q_proj", (32, 128), ("affine", 4, 64)),
        "model.layers.0.attn.o_proj.weight": mx.ones((4, 128), mx.bfloat16),
    }
    modules = {
        "model.embed_tokens": {"bits": 6, "group_size": None},
        f"{experts}.down_proj": {"bits": 4, "group_size": 32, "mode": "mxfp4"},
        "model.layers.0.mlp.gate": {"bits": 8, "group_size": 64},
        "model.layers.0.attn.o_proj": False,
        "model.not_there": {"bits": 8, "group_size": 64},
    }
    source = save(tmp_path / "s", arrays, config("affine", 4, 64, **modules))

    create(store, source)

    found = types(store)
    assert found["model.embed_tokens.weight"] == ("int6", 64, (64, 128))
    assert found[f"{experts}.up_proj.weight"] == ("int4", 64, (3, 32, 128))
    assert found[f"{experts}.down_proj.weight"] == ("mxfp4", 32, (3, 128, 64))
    assert found["model.layers.0.mlp.gate.weight"] == ("int8", 64, (4, 128))
    layers = [layer.name for layer in store.catalog.get(NAME).parse().layers]
    assert experts in layers
    (kept,) = [one for one in store.catalog.get(NAME).parse().layers if one.is_file]
    assert store.blobs.read(kept.ref, 1 << 20) == (source / "config.json").read_bytes()
    made = loaded(store)
    for name, array in arrays.items():
        stem, _, part = name.rpartition(".")
        assert data(made[f"{stem}.weight{SUFFIXES[PARTS.index(part)]}"]) == data(array)
    assert compare(store, NAME, source).findings == ()


def test_ffai_says_bits_by_shapes(store, tmp_path):
    arrays = {
        **quantized("a", (64, 128), ("affine", 3, 64), "F16"),
        **quantized("b", (64, 128), ("affine", 6, 64), "F16"),
        **quantized("c", (64, 128), ("affine", 8, 64), "F16"),
    }
    source = save(tmp_path / "s", arrays, {"bits": 3, "group_size": 64})

    create(store, source)

    assert [one[0] for one in types(store).values()] == ["int3", "int6", "int8"]


@pytest.mark.parametrize(
    "kind",
    [
        (("affine", 2, 32)),
        (("affine", 3, 32)),
        (("affine", 5, 32)),
        (("affine", 5, 64)),
        (("affine", 5, 128)),
        (("affine", 6, 128)),
        (("affine", 8, 128)),
        *MODES[-3:],
    ],
)
def test_shapes_that_leave_one_type_need_no_configuration(store, tmp_path, kind):
    mode, bits, size = kind
    source = save(tmp_path / "s", quantized(X, (4, 256), kind))

    create(store, source)

    name = f"int{bits}" if mode == "affine" else mode
    assert types(store)[f"{X}.weight"] == (name, size, (4, 256))


@pytest.mark.parametrize(("bits", "size"), [(4, 64), (2, 64), (3, 64), (8, 64), (6, 64)])
def test_shapes_that_leave_several_types_do_not(tmp_path, bits, size):
    source = save(tmp_path / "s", quantized(X, (4, 256), ("affine", bits, size)))

    with pytest.raises(InputError, match=f"{bits} bits in groups of {size}") as caught:
        read_inventory(source)

    assert caught.value.exit_code == 3
    assert "quantization" in caught.value.hint


@pytest.mark.parametrize("spelled", [True, False])
def test_ollamas_spelling(store, tmp_path, spelled):
    parts = quantized(X, (48, 256), ("affine", 4, 64)).values()
    arrays = {f"{X}.weight{end}": one for end, one in zip(SUFFIXES, parts, strict=True)}
    source = save(tmp_path / "s", arrays, config("affine", 4, 64) if spelled else None)

    create(store, source)

    made = loaded(store)
    assert made.keys() == arrays.keys()
    assert all(data(made[name]) == data(array) for name, array in arrays.items())
    assert types(store)[f"{X}.weight"] == ("int4", 64, (48, 256))


def test_a_component_has_its_own_configuration(store, tmp_path):
    for component, bits in (("text_encoder", 4), ("transformer", 8)):
        save(tmp_path / "s" / component, quantized("a", (4, 128), ("affine", bits, 64)),
             config("affine", bits, 64))  # fmt: skip
    source = write(tmp_path / "s", {"model_index.json": {}})

    create(store, source)

    assert {name: found[0] for name, found in types(store).items()} == {
        "text_encoder/a.weight": "int4",
        "transformer/a.weight": "int8",
    }
    assert compare(store, NAME, source).findings == ()
