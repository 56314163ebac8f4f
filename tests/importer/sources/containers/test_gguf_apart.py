"""GGUF files that llama.cpp's converter made, taken apart: the checkpoints that it was given.

tests/importer/formats/gguf_names/make_fixtures.py made the files, and notes of the checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import math
from argparse import Namespace
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.scripts.gguf_convert_endian import convert_byteorder

from importer.codecs.reference.matrices import to_f32
from importer.codecs.registry import has_blocks, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.views.undone import Change
from importer.sources.file import opened, read_bytes, read_whole
from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.codecs import laws

FIXTURES = Path(__file__).resolve().parents[2] / "formats/gguf_names/fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
NOT_IN_FILE = {"bert": {"pooler.dense.weight", "pooler.dense.bias"}}
each_model = pytest.mark.parametrize("name", sorted(EXPECTED))


def taken_apart(name):
    return read_inventory(FIXTURES / f"{name}.gguf")


def stored(tensor):
    """The bytes of a tensor's arrays."""
    found = []
    for array in tensor.arrays:
        with opened(array.file) as descriptor:
            found.append(
                read_bytes(array.file, descriptor, array.offset, array.offset + array.nbytes)
            )
    return found


def values(tensor, pieces):
    """A tensor's values as F32, decoded in so many pieces."""
    count, unit = math.prod(tensor.shape), tensor.decoder.unit(tensor.shape)
    step = max(count // pieces // unit, 1) * unit
    places = [*range(0, count, step), count]
    made = laws.decoded(tensor.decoder, tensor.shape, stored(tensor), places, NUMPY)
    return to_f32(made, tensor.dtype).view("<f4").reshape(tensor.shape)


def digest(found):
    return hashlib.sha256((found + np.float32(0)).tobytes()).hexdigest()[:16]


@each_model
def test_names_and_shapes_are_those_of_the_checkpoint(name):
    found = {tensor.name: list(tensor.shape) for tensor in taken_apart(name).tensors}
    want = {key: made[0] for key, made in EXPECTED[name]["tensors"].items()}
    assert found == {k: v for k, v in want.items() if k not in NOT_IN_FILE.get(name, ())}


@each_model
@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_values_are_those_of_the_checkpoint(name, pieces):
    for tensor in taken_apart(name).tensors:
        found = values(tensor, pieces)
        if getattr(tensor.decoder, "change", None) is Change.MINUS_EXP:
            assert tensor.name.endswith("A_log")
            found = np.round(found * 64) / 64  # of which the checkpoint's are multiples
        assert digest(found) in EXPECTED[name]["tensors"][tensor.name][1:], tensor.name


@each_model
def test_packed_rows_are_moved_without_being_decoded(name):
    for tensor in taken_apart(name).tensors:
        if tensor.is_plain or not has_blocks(tensor.decoder):
            continue
        moves = transcoder_for(None, tensor.decoder)
        whole = range(math.prod(tensor.shape))
        (made,) = moves.convert(stored(tensor), tensor.shape, whole, NUMPY).parts
        kind = gguf.GGMLQuantizationType[str(tensor.decoder)]
        (part,) = moves.parts(tensor.shape)
        found = gguf.quants.dequantize(np.frombuffer(made, "u1").reshape(part.shape), kind)
        assert np.array_equal(found.reshape(tensor.shape), values(tensor, 1)), tensor.name


TOLD_OTHERWISE = {
    "pad_token_id",  # of the tokenizer, which these have not
    "torch_dtype",
    "rope_theta",  # transformers 5 has it in rope_parameters
    "rope_scaling",
    "vocab_size",
    "n_inner",  # GPT-2's is None where it is the usual one
}


@each_model
def test_the_configuration_says_what_the_checkpoint_said(name):
    found, want = taken_apart(name).configs.get("", {}), EXPECTED[name]["config"]
    assert found["vocab_size"] == 32
    kept = {key: value for key, value in found.items() if key not in TOLD_OTHERWISE}
    if "sliding_window_size" in kept:
        # The published number, of which transformers makes its own.
        kept["sliding_window"] = kept["sliding_window_size"] + 1
    assert kept == {key: want.get(key, kept[key]) for key in kept}
    rope = want.get("rope_parameters") or {}
    if "rope_theta" in rope and "rope_theta" in found:
        assert found["rope_theta"] == rope["rope_theta"]


def test_the_factors_of_llama_3_give_its_parameters_back():
    inventory = taken_apart("llama")
    rope = EXPECTED["llama"]["config"]["rope_parameters"]
    scaling = inventory.configs[""]["rope_scaling"]
    assert {**scaling, "rope_theta": 500000.0} == rope
    assert any("rope_freqs.weight" in note for note in inventory.notes)


def test_factors_are_numbers_in_files_of_the_other_byte_order_too(tmp_path, monkeypatch):
    path = tmp_path / "llama.gguf"
    path.write_bytes((FIXTURES / "llama.gguf").read_bytes())
    monkeypatch.setattr("builtins.input", lambda _: "YES")
    reader = gguf.GGUFReader(path, "r+")
    convert_byteorder(reader, Namespace(order="big", dry_run=False))
    reader.data.flush()

    found = read_inventory(path, apart=True)

    assert found.configs == taken_apart("llama").configs


def test_files_are_made_of_the_metadata():
    inventory = taken_apart("llama")
    assert [file.path for file in inventory.files] == ["config.json", "gguf.json"]
    told = json.loads(read_whole(inventory.file("gguf.json"), 1 << 20))
    assert told["version"] == 3
    assert told["metadata"]["llama.block_count"] == {"type": "u32", "value": 1}
    assert told["metadata"]["general.architecture"]["value"] == "llama"
    config = inventory.document("config.json")
    assert config == inventory.configs[""]
    assert inventory.all_files == inventory.weights


def test_a_configuration_of_the_source_goes_before_ours(tmp_path):
    (tmp_path / "m.gguf").write_bytes((FIXTURES / "llama.gguf").read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "mine"}')
    inventory = read_inventory(tmp_path)
    assert inventory.configs == {"": {"model_type": "mine"}}
    assert inventory.document("config.json") == {"model_type": "mine"}
    assert inventory.file("gguf.json") is not None


def write(path, architecture, keys, tensors, tokens=None):
    """A GGUF file, by the format's own writer."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        if isinstance(value, float):
            writer.add_float32(f"{architecture}.{key}", value)
        elif isinstance(value, list):
            writer.add_array(f"{architecture}.{key}", value)
        else:
            writer.add_uint32(f"{architecture}.{key}", value)
    for name, array in tensors.items():
        writer.add_tensor(name, array)
    if tokens is not None:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_an_unknown_architecture_keeps_the_names_of_the_gguf(tmp_path):
    path = write(tmp_path / "x.gguf", "brandnew", {}, {"blk.0.attn_q.weight": zeros(4, 4)})
    inventory = read_inventory(path)
    assert [tensor.name for tensor in inventory.tensors] == ["blk.0.attn_q.weight"]
    assert any("`brandnew` are not known" in note for note in inventory.notes)
    assert any("config.json is not written" in note for note in inventory.notes)


def test_an_unknown_tensor_keeps_its_name_and_is_said(tmp_path):
    tensors = {"output_norm.weight": zeros(4), "blk.3.brand_new.weight": zeros(4)}
    inventory = read_inventory(write(tmp_path / "x.gguf", "qwen2", {}, tensors))
    names = [tensor.name for tensor in inventory.tensors]
    assert names == ["blk.3.brand_new.weight", "model.norm.weight"]
    assert any("`blk.3.brand_new.weight`" in note for note in inventory.notes)


HEADS = {"attention.head_count": 4, "attention.head_count_kv": 2}
EXPERTS = {
    "blk.0.ffn_gate_exps.weight": zeros(2, 8, 4),
    "blk.0.ffn_gate_inp.weight": zeros(2, 4),
}
HOSTILE = {
    "no heads": ("llama", {}, {"blk.0.attn_q.weight": zeros(8, 4)}),
    "heads are a negative number": (
        "llama",
        {"attention.head_count": 0},
        {"blk.0.attn_q.weight": zeros(8, 4)},
    ),
    "heads do not divide": ("llama", HEADS, {"blk.0.attn_q.weight": zeros(10, 4)}),
    "heads are odd": ("llama", HEADS, {"blk.0.attn_q.weight": zeros(12, 4)}),
    "heads of another block": (
        "deci",
        {"attention.head_count": [4], "attention.head_count_kv": [2]},
        {"blk.7.attn_q.weight": zeros(8, 4)},
    ),
    "a gate without an up": ("granitemoe", HEADS, {"blk.0.ffn_gate.weight": zeros(8, 4)}),
    "a gate and an up of other shapes": (
        "gpt-oss",
        HEADS,
        {
            "blk.0.ffn_gate_exps.weight": zeros(2, 8, 4),
            "blk.0.ffn_up_exps.weight": zeros(2, 4, 4),
        },
    ),
    "experts without a dimension": ("llama", HEADS, {"blk.0.ffn_gate_exps.weight": zeros(8)}),
    "k without v": ("deepseek2", HEADS, {"blk.0.attn_k_b.weight": zeros(2, 4, 4)}),
    "k and v of other heads": (
        "deepseek2",
        HEADS,
        {"blk.0.attn_k_b.weight": zeros(2, 4, 4), "blk.0.attn_v_b.weight": zeros(3, 4, 4)},
    ),
    "a fused matrix of other heads": ("falcon", HEADS, {"blk.0.attn_qkv.weight": zeros(9, 4)}),
    "q, k and v that are not heads": (
        "internlm2",
        HEADS,
        {
            "blk.0.attn_q.weight": zeros(8, 4),
            "blk.0.attn_k.weight": zeros(2, 4),
            "blk.0.attn_v.weight": zeros(4, 4),
        },
    ),
    "a vector that should be a matrix": ("gpt2", HEADS, {"blk.0.ffn_up.weight": zeros(8)}),
    "gates and ups of odd rows": (
        "qwen2moe",
        HEADS,
        {"blk.0.ffn_gate_up_exps.weight": zeros(2, 5, 4)},
    ),
    "value heads that do not fit": (
        "qwen35",
        {
            "ssm.group_count": 3,
            "ssm.time_step_rank": 4,
            "ssm.inner_size": 32,
            "ssm.state_size": 8,
        },
        {"blk.0.ssm_out.weight": zeros(32, 32)},
    ),
    "value columns that do not fit": (
        "qwen35",
        {
            "ssm.group_count": 2,
            "ssm.time_step_rank": 4,
            "ssm.inner_size": 32,
            "ssm.state_size": 8,
        },
        {"blk.0.ssm_out.weight": zeros(32, 16)},
    ),
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_metadata_and_shapes_that_contradict_each_other(tmp_path, case):
    path = write(tmp_path / "x.gguf", *HOSTILE[case])
    with pytest.raises(InputError) as caught:
        read_inventory(path)
    assert caught.value.code == "E_GGUF_MODEL"
    assert "x.gguf" in str(caught.value)


def test_a_head_that_fills_the_memory_is_refused(tmp_path):
    tensors = {"blk.0.attn_q.weight": zeros(1 << 13, 1 << 12)}
    path = write(tmp_path / "x.gguf", "llama", {"attention.head_count": 1}, tensors)
    with pytest.raises(UnsupportedError) as caught:
        read_inventory(path)
    assert caught.value.code == "E_GGUF_LAYOUT"


def test_an_empty_tensor_whose_rows_move_is_refused(tmp_path):
    # Undoing a change around the order must not hide that it cannot be read.
    sizes = {
        "ssm.group_count": 2,
        "ssm.time_step_rank": 4,
        "ssm.inner_size": 32,
        "ssm.state_size": 8,
    }
    tensors = {"blk.0.ssm_a": zeros(0), "blk.0.ssm_out.weight": zeros(4, 32)}
    path = write(tmp_path / "x.gguf", "qwen35", sizes, tensors)
    with pytest.raises(UnsupportedError, match="there are none") as caught:
        read_inventory(path)
    assert caught.value.code == "E_GGUF_LAYOUT"


def test_fused_gates_and_ups_become_two(tmp_path):
    rows = np.arange(2 * 6 * 4, dtype=np.float32).reshape(2, 6, 4)
    tensors = {"blk.0.ffn_gate_up_exps.weight": rows}
    inventory = read_inventory(write(tmp_path / "x.gguf", "qwen3moe", HEADS, tensors))
    found = {tensor.name: values(tensor, 1) for tensor in inventory.tensors}
    for expert in range(2):
        name = f"model.layers.0.mlp.experts.{expert}"
        assert np.array_equal(found[f"{name}.gate_proj.weight"], rows[expert, :3])
        assert np.array_equal(found[f"{name}.up_proj.weight"], rows[expert, 3:])


def test_fused_q_k_and_v_become_three(tmp_path):
    rows = np.arange(16 * 4, dtype=np.float32).reshape(16, 4)
    tensors = {"blk.0.attn_qkv.weight": rows}
    inventory = read_inventory(write(tmp_path / "x.gguf", "qwen2", HEADS, tensors))
    found = [values(tensor, 1) for tensor in inventory.tensors]
    assert [tensor.name[-13:-7] for tensor in inventory.tensors] == [
        "k_proj",
        "q_proj",
        "v_proj",
    ]
    assert np.array_equal(np.concatenate([found[1], found[0], found[2]]), rows)


def test_of_a_split_every_file_gives_its_tensors(tmp_path):
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "qwen2", split_max_tensors=1)
    for name in ("token_embd.weight", "output_norm.weight"):
        writer.add_tensor(name, zeros(4, 4) if "embd" in name else zeros(4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    inventory = read_inventory(tmp_path)
    assert [tensor.name for tensor in inventory.tensors] == [
        "model.embed_tokens.weight",
        "model.norm.weight",
    ]


def test_gpt_oss_in_mxfp4_is_named_like_the_checkpoints_in_mxfp4(tmp_path):
    rng = np.random.default_rng(4)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "gpt-oss")
    kind = gguf.GGMLQuantizationType.MXFP4
    parts = {}
    for one in ("gate", "up", "down"):
        blocks = gguf.quants.quantize(rng.standard_normal((2, 4, 32)).astype("f4"), kind)
        writer.add_tensor(f"blk.0.ffn_{one}_exps.weight", blocks, raw_dtype=kind)
        parts[one] = gguf.quants.dequantize(blocks, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = {tensor.name: tensor for tensor in read_inventory(tmp_path / "x.gguf").tensors}
    experts = "model.layers.0.mlp.experts"
    assert set(tensors) == {f"{experts}.gate_up_proj.weight", f"{experts}.down_proj.weight"}
    found = values(tensors[f"{experts}.gate_up_proj.weight"], 3)
    assert np.array_equal(found[:, ::2], parts["gate"])
    assert np.array_equal(found[:, 1::2], parts["up"])
    assert np.array_equal(values(tensors[f"{experts}.down_proj.weight"], 1), parts["down"])
    assert all(tensor.is_ours for tensor in tensors.values())


def nvfp4(path, architecture, matrices, scales, *, dtype="f4", order=gguf.GGUFEndian.LITTLE):  # noqa: PLR0913
    """A file of matrices in NVFP4; the package decodes that type and does not encode it."""
    rng = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, architecture, endianess=order)
    writer.add_uint32(f"{architecture}.attention.head_count", 2)
    kind = gguf.GGMLQuantizationType.NVFP4
    made = {}
    for name, shape in matrices.items():
        blocks = rng.integers(0, 120, (*shape[:-1], shape[-1] // 64 * 36), "u1")
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=kind)
        made[name] = gguf.quants.dequantize(blocks, kind).astype("f4")
    for name, scale in scales.items():
        writer.add_tensor(f"{name}.scale", np.array(scale, dtype))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def test_matrices_in_nvfp4_are_multiplied_by_their_factors(tmp_path):
    matrices = {
        "blk.0.ffn_up": (4, 64),
        "blk.0.attn_q": (8, 64),
        "blk.0.ffn_up_exps": (2, 4, 64),
    }
    scales = {"blk.0.ffn_up": [0.3], "blk.0.attn_q": [0.7], "blk.0.ffn_up_exps": [0.1, 0.9]}
    made = nvfp4(tmp_path / "x.gguf", "llama", matrices, scales)
    found = {t.name: values(t, 3) for t in read_inventory(tmp_path / "x.gguf").tensors}
    layer, third = "model.layers.0", np.float32(0.3)
    assert len(found) == 4
    assert np.array_equal(found[f"{layer}.mlp.up_proj.weight"], made["blk.0.ffn_up"] * third)
    halves = made["blk.0.attn_q"].reshape(2, 2, 2, 64).swapaxes(1, 2).reshape(8, 64)
    want = halves * np.float32(0.7)
    assert np.array_equal(found[f"{layer}.self_attn.q_proj.weight"], want)
    for expert, scale in enumerate(scales["blk.0.ffn_up_exps"]):
        want = made["blk.0.ffn_up_exps"][expert] * np.float32(scale)
        name = f"{layer}.mlp.experts.{expert}.up_proj.weight"
        assert np.array_equal(found[name], want)


def test_matrices_with_factors_stay_as_they_are_where_nothing_is_asked(tmp_path):
    matrices, scales = {"blk.0.ffn_up_exps": (2, 4, 64)}, {"blk.0.ffn_up_exps": [0.1, 0.9]}
    nvfp4(tmp_path / "x.gguf", "qwen3moe", matrices, scales)
    inventory = read_inventory(tmp_path / "x.gguf")
    kept = [array.name for tensor in inventory.tensors for array in tensor.stored()]
    name = "blk.0.ffn_up_exps"
    assert kept == [
        f"{name}.weight",
        f"{name}.scale",
        f"{name}.weight[4:]",
        f"{name}.scale[1:]",
    ]
    assert any("only when they are decoded" in note for note in inventory.notes)


def test_a_factor_of_a_part_of_a_matrix_is_refused(tmp_path):
    matrices = {"blk.0.ffn_gate": (4, 64), "blk.0.ffn_up": (4, 64)}
    nvfp4(tmp_path / "x.gguf", "granitemoe", matrices, {"blk.0.ffn_up": [0.3]})
    with pytest.raises(UnsupportedError) as caught:
        read_inventory(tmp_path / "x.gguf")
    assert caught.value.code == "E_GGUF_SCALE"


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "TQ2_0", "Q4_K"])
def test_a_factor_multiplies_a_matrix_of_any_type(tmp_path, kind):
    codes = getattr(gguf.GGMLQuantizationType, kind)
    block, size = gguf.GGML_QUANT_SIZES[codes]
    width = max(block, 64)
    rng = np.random.default_rng(7)
    plain = rng.standard_normal((4, width)).astype("f4")
    if kind == "Q4_K":  # which the package decodes and does not encode
        blocks = rng.integers(0, 60, (4, width // block * size), "u1")
    else:
        blocks = gguf.quants.quantize(plain, codes)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("blk.0.ffn_up.weight", blocks, raw_dtype=codes)
    writer.add_tensor("blk.0.ffn_up.scale", np.array([0.3], "f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    (found,) = read_inventory(tmp_path / "x.gguf").tensors
    want = gguf.quants.dequantize(blocks, codes).astype("f4") * np.float32(0.3)
    assert (found.name, found.dtype) == ("model.layers.0.mlp.up_proj.weight", "F32")
    assert np.array_equal(values(found, 3), want)
    assert found.is_plain == (kind in {"F32", "F16", "BF16"})
    assert [one.name for one in found.arrays] == ["blk.0.ffn_up.weight", "blk.0.ffn_up.scale"]


def plain(path, architecture, tensors):
    """A file of plain numbers."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_uint32(f"{architecture}.block_count", 9)
    writer.add_uint32(f"{architecture}.attention.head_count", 2)
    for name, shape in tensors.items():
        writer.add_tensor(name, np.ones(shape, "f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_inventory(path)


def test_what_is_called_like_a_factor_may_be_a_tensor(tmp_path):
    shapes = {"ffn_gate_inp.weight": (4, 64), "ffn_gate_inp.scale": (64,)}
    tensors = {f"blk.0.{name}": shape for name, shape in shapes.items()}
    for architecture in ("gemma4", "unknown"):
        found = plain(tmp_path / f"{architecture}.gguf", architecture, tensors)
        assert {one.shape for one in found.tensors} == {(4, 64), (64,)}
        assert all(one.is_plain for one in found.tensors)


def test_a_factor_of_several_numbers_is_not_that_of_a_matrix(tmp_path):
    tensors = {"blk.0.ffn_up.weight": (4, 64), "blk.0.ffn_up.scale": (4,)}
    with pytest.raises(InputError, match="not a factor"):
        plain(tmp_path / "x.gguf", "llama", tensors)


@pytest.mark.parametrize(
    "name",
    ["blk.007.attn_q.weight", "blk.01.attn_norm.weight", "blk.٣.attn_q.weight"],
)
def test_only_a_plain_number_is_that_of_a_block(tmp_path, name):
    found = plain(tmp_path / "x.gguf", "llama", {name: (4, 64)})
    assert [one.name for one in found.tensors] == [name]
    assert any("keep that of the GGUF" in note for note in found.notes)


def test_a_number_of_many_digits_is_not_that_of_a_block(tmp_path):
    name = f"blk.{'9' * 60}.attn_q.weight"
    found = plain(tmp_path / "x.gguf", "llama", {name: (4, 64)})
    assert [one.name for one in found.tensors] == [name]


def test_factors_of_a_big_endian_file_are_swapped(tmp_path):
    matrices, scales = {"blk.0.ffn_up_exps": (2, 4, 64)}, {"blk.0.ffn_up_exps": [0.1, 0.9]}
    for order in gguf.GGUFEndian:
        nvfp4(tmp_path / f"{order.name}.gguf", "qwen3moe", matrices, scales, order=order)
    little, big = (
        [values(t, 3) for t in read_inventory(tmp_path / f"{order.name}.gguf").tensors]
        for order in gguf.GGUFEndian
    )
    assert np.array_equal(little, big)


@pytest.mark.parametrize("dtype", ["f2", "f8", "i4"])
def test_a_factor_that_is_not_f32_is_refused(tmp_path, dtype):
    matrices, scales = {"blk.0.ffn_up": (4, 64)}, {"blk.0.ffn_up": [3]}
    nvfp4(tmp_path / "x.gguf", "llama", matrices, scales, dtype=dtype)
    with pytest.raises(UnsupportedError, match="expected F32") as caught:
        read_inventory(tmp_path / "x.gguf")
    assert caught.value.code == "E_GGUF_SCALE"


def test_a_factor_of_other_experts_is_refused(tmp_path):
    matrices = {"blk.0.ffn_up_exps": (3, 4, 64)}
    nvfp4(tmp_path / "x.gguf", "qwen3moe", matrices, {"blk.0.ffn_up_exps": [0.1, 0.9]})
    with pytest.raises(InputError, match="not a factor"):
        read_inventory(tmp_path / "x.gguf")
