"""The table of ways in and out in docs/commands/export.md: what comes back is what went in."""

from __future__ import annotations

import numpy as np
import pytest

from importer.recipes.options import parse_options
from store import ModelName, Store
from tests.importer.builders import create
from tests.importer.exports.exporting import arrays, export, tree
from tests.importer.exports.gguf_checkpoints import checkpoint
from tests.importer.exports.test_gguf import tensors
from tests.importer.exports.test_gguf_unchanged import normal
from tests.importer.exports.uqff_checkpoints import checkpoint as checkpoint_of_uqff

MLX = ("int2", "int3", "int4", "int5", "int6", "int8/32", "mxfp4", "mxfp8", "nvfp4")
MIXED = ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")
BLOCKS = (
    *("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "iq4_xs"),
    *("q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "tq1_0", "tq2_0", "mxfp4_moe"),
)
AFFINE = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1")
LAYERS = (
    *("afq2", "afq3", "afq4", "afq6", "afq8"),
    *("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2k", "q3k", "q4k", "q5k", "q6k"),
    *("hqq4", "hqq8", "fp8", "f8q8", "mxfp4"),
)
INDEX = "model.safetensors.index.json"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def kept(directory):
    """Every file but weights and what says where they are."""
    return {
        path: data
        for path, data in tree(directory).items()
        if not path.endswith((".safetensors", ".index.json"))
    }


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("name", ["llama", "qwen2moe", "gpt-oss-packed"])
def test_hf_to_hf(store, tmp_path, name, stacked):
    source = checkpoint(tmp_path / "in", name, shards=2)
    create(store, source, recipe=parse_options(stacked=stacked))

    export(store, tmp_path / "out", "hf", shard_size=50_000)

    assert arrays(tmp_path / "out") == arrays(source)
    assert kept(tmp_path / "out") == kept(source)


@pytest.mark.parametrize("how", [*MLX, *MIXED, None])
def test_mlx_to_mlx(store, tmp_path, how):
    source = normal(checkpoint(tmp_path / "in", "llama"))
    asked = {"recipe": how} if how in MIXED else {"q": how}
    export(None, tmp_path / "mlx", "mlx", source=source, **asked)
    create(store, tmp_path / "mlx")

    export(store, tmp_path / "out", "mlx")

    assert tree(tmp_path / "out") == tree(tmp_path / "mlx")


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("name", ["llama", "qwen2moe"])
def test_gguf_whole_and_taken_apart_to_gguf(store, tmp_path, name, kind):
    path = tmp_path / "in.gguf"
    export(None, path, "gguf", source=checkpoint(tmp_path / "in", name), q=kind)
    create(store, path, "whole")
    create(store, path, "apart", unpack=True)

    export(store, tmp_path / "whole.gguf", "gguf", name="whole")
    # Floats that nobody asks for are F16, as in the converter: of F32 the plan says `lossy`.
    asked = {"q": kind} if kind == "f32" else {}
    export(store, tmp_path / "apart.gguf", "gguf", name="apart", **asked)

    assert (tmp_path / "whole.gguf").read_bytes() == path.read_bytes()
    assert tensors(tmp_path / "apart.gguf") == tensors(path)


@pytest.mark.parametrize("kind", AFFINE)
def test_gguf_as_types_of_the_store_to_gguf(store, tmp_path, kind):
    path = tmp_path / "in.gguf"
    export(None, path, "gguf", source=checkpoint(tmp_path / "in", "llama"), q=kind)
    create(store, path, recipe=parse_options("repack"), unpack=True)

    export(store, tmp_path / "out.gguf", "gguf")

    assert tensors(tmp_path / "out.gguf") == tensors(path)


@pytest.mark.parametrize("kind", LAYERS)
def test_uqff_to_uqff(store, tmp_path, kind):
    source = checkpoint_of_uqff(tmp_path / "in", "llama")
    export(None, tmp_path / "uqff", "uqff", source=source, q=kind)
    create(store, tmp_path / "uqff")

    export(store, tmp_path / "out", "uqff")

    assert tree_of_arrays(tmp_path / "out") == tree_of_arrays(tmp_path / "uqff")


def tree_of_arrays(directory):
    """Name -> dtype, shape and bytes of every array; shards are safetensors, too."""
    from tests.importer.exports.exporting import arrays_in

    paths = [*directory.glob("*.uqff"), *directory.glob("*.safetensors")]
    return {path.suffix + name: one for path in paths for name, one in arrays_in(path).items()}


@pytest.mark.parametrize("how", MLX)
@pytest.mark.parametrize("name", ["llama", "qwen2moe"])
def test_hf_to_a_type_to_mlx_to_the_store(store, tmp_path, name, how):
    source = checkpoint(tmp_path / "in", name)
    create(store, source, "first", recipe=parse_options(how, recipe="mlx", stacked=True))
    export(store, tmp_path / "mlx", "mlx", name="first")
    create(store, tmp_path / "mlx", "again", recipe=parse_options(stacked=True))

    first, again = (values_of(store, one) for one in ("first", "again"))

    assert again == first


def values_of(store, name):
    """Every array of a stored model, as a format of files that both ways end in has it."""
    place = store.layout.root.parent / f"arrays-{name}"
    export(store, place, "mlx", name=name)
    manifest = store.catalog.get(ModelName.parse(name)).parse()
    assert manifest.layers
    return arrays(place)


def test_mxfp4_of_gpt_oss_decoded_is_what_transformers_has_of_it(store, tmp_path):
    source = checkpoint(tmp_path / "in", "gpt-oss-packed")
    create(store, source)

    export(store, tmp_path / "out", "hf", dtype="BF16")

    found, packed = arrays(tmp_path / "out"), arrays(source)
    name = "model.layers.1.mlp.experts.gate_up_proj"
    dtype, shape, data = found[name]
    assert (dtype, shape) == ("BF16", (3, 64, 192))
    octets = np.frombuffer(packed[f"{name}_blocks"][2], "u1").reshape(3, 192, 2, 16)
    codes = np.stack([octets & 15, octets >> 4], axis=-1).reshape(3, 192, 2, 32)
    powers = np.frombuffer(packed[f"{name}_scales"][2], "u1").reshape(3, 192, 2, 1)
    levels = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")
    values = np.where(codes & 8, -1, 1) * levels[codes & 7] * np.exp2(powers.astype("f4") - 127)
    turned = values.reshape(3, 192, 64).swapaxes(1, 2)
    halves = np.frombuffer(data, "<u2").astype("<u4") << 16
    assert (halves.view("<f4").reshape(shape) == turned).all()
    assert "quantization_config" not in (tmp_path / "out" / "config.json").read_text()
