"""Blocks of GGUF that say what the store's integers say: no code is made anew."""

from __future__ import annotations

import json

import numpy as np
import pytest

from importer.recipes.options import parse_options
from store import Store
from store.errors import InputError
from tests.importer.builders import create
from tests.importer.exports.exporting import arrays, export, planned
from tests.importer.exports.gguf_checkpoints import checkpoint
from tests.importer.exports.test_gguf import tensors, told

PAIRS = {
    "token_embd.weight": "model.embed_tokens",
    "blk.1.attn_q.weight": "model.layers.1.self_attn.q_proj",
    "blk.0.attn_k.weight": "model.layers.0.self_attn.k_proj",
    "blk.0.ffn_down.weight": "model.layers.0.mlp.down_proj",
}
HEADS = {"attn_q": 2, "attn_k": 1}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def triplet(made, name, bits):
    """Codes, scales and biases of a tensor as MLX has them, a row of codes for each group."""
    kind, shape, scales = made[f"{name}.scales"]
    halves = np.frombuffer(scales, "<u2").astype("<u4") << 16
    values = halves.view("<f4") if kind == "BF16" else np.frombuffer(scales, "<f4")
    _, _, biases = made[f"{name}.biases"]
    halves = np.frombuffer(biases, "<u2").astype("<u4") << 16
    offsets = halves.view("<f4") if kind == "BF16" else np.frombuffer(biases, "<f4")
    octets = np.frombuffer(made[f"{name}.weight"][2], "u1")
    stream = np.unpackbits(octets, bitorder="little").reshape(-1, bits)
    codes = (stream << np.arange(bits, dtype="u1")).sum(axis=1).astype("u1")
    return codes.reshape(shape[0], -1), values.reshape(shape), offsets.reshape(shape)


def turned(name, rows):
    """The rows of q and k as llama.cpp wants them."""
    heads = HEADS.get(name.split(".")[-2])
    if heads is None:
        return rows
    width = rows.shape[-1]
    return rows.reshape(heads, 2, -1, width).swapaxes(1, 2).reshape(-1, width)


def four_bits(blocks):
    """Codes, scales and biases of blocks of Q4_1, as the format's page describes them."""
    octets = np.frombuffer(blocks, "u1").reshape(-1, 20)
    d, m = (np.ascontiguousarray(octets[:, at : at + 2]).view("<f2")[:, 0] for at in (0, 2))
    codes = np.concatenate([octets[:, 4:] & 15, octets[:, 4:] >> 4], axis=1)
    return codes, d.astype("<f4"), m.astype("<f4")


def normal(source):
    """Give a checkpoint of BF16 weights such as models have: no two groups are alike."""
    path = source / "model.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    values = np.random.default_rng(3).normal(0, 0.02, (len(data) - start) // 2)
    halves = (values.astype("<f4").view("<u4") >> 16).astype("<u2")
    path.write_bytes(data[:start] + halves.tobytes())
    return source


def stored(store, source, q, name="m"):
    """Create a model with the rules of mlx, by which all matrices get one type."""
    create(store, source, name, recipe=parse_options(q, recipe="mlx"))


@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("q", [None, "q4_1"])
def test_int4_becomes_q4_1_with_the_same_codes_scales_and_biases(store, tmp_path, group, q):
    stored(store, normal(checkpoint(tmp_path / "in", "llama")), f"int4/{group}")
    export(store, tmp_path / "mlx", "mlx")

    write = export(store, tmp_path / "out.gguf", "gguf", q=q)

    made, found = arrays(tmp_path / "mlx"), tensors(tmp_path / "out.gguf")
    times = group // 32
    for name, own in PAIRS.items():
        kind, _, blocks = found[name]
        if f"{own}.scales" not in made:
            assert (kind, group) == ("Q4_1" if q else "BF16", 64)  # 96 columns
            continue
        assert kind == "Q4_1", name
        codes, *numbers = triplet(made, own, 4)
        mine = four_bits(blocks)
        assert (turned(name, codes).reshape(-1, 32) == mine[0]).all()
        for expected, values in zip(numbers, mine[1:], strict=True):
            assert (turned(name, np.repeat(expected, times, axis=1)).ravel() == values).all()
    assert {one[0] for one in found.values()} >= {"Q4_1"}
    assert write.lossy == ()
    assert told(tmp_path / "out.gguf")["general.file_type"] == 3


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
@pytest.mark.parametrize("name", ["llama", "qwen2moe"])
def test_blocks_that_were_repacked_are_the_blocks_again(store, tmp_path, name, kind):
    source = checkpoint(tmp_path / "in", name)
    export(None, tmp_path / "in.gguf", "gguf", source=source, q=kind)
    create(store, tmp_path / "in.gguf", unpack=True, recipe=parse_options("repack"))

    write = export(store, tmp_path / "out.gguf", "gguf")

    before, after = tensors(tmp_path / "in.gguf"), tensors(tmp_path / "out.gguf")
    assert {one[0] for one in before.values()} >= {kind, "F32"}
    assert after == before
    assert any(row.before.startswith("int") for row in write.rows)


def test_what_f16_lacks_is_decoded_and_told(store, tmp_path):
    stored(store, checkpoint(tmp_path / "in", "llama", dtype="F32"), "int4/32")

    write = export(store, tmp_path / "out.gguf", "gguf")

    assert {one[0] for one in tensors(tmp_path / "out.gguf").values()} == {"F32", "F16"}
    assert write.lossy == ("16 tensors of int4 are rounded to F16",)
    with pytest.raises(InputError, match="rounded"):
        planned(store, tmp_path / "strict.gguf", "gguf", strict=True)


def test_what_is_quantized_once_more_is_told(store, tmp_path):
    stored(store, checkpoint(tmp_path / "in", "llama", dtype="F32"), "int4/32")

    _, again = planned(store, tmp_path / "again.gguf", "gguf", q="q8_0")
    _, kept = planned(store, tmp_path / "kept.gguf", "gguf", q="q4_1", source=tmp_path / "in")

    assert "16 tensors of int4 quantized again" in again.write.notes
    assert not [note for note in kept.write.notes if "again" in note]


def test_int8_whose_biases_are_its_own_is_decoded(store, tmp_path):
    stored(store, normal(checkpoint(tmp_path / "in", "llama")), "int8/32")

    export(store, tmp_path / "out.gguf", "gguf")

    assert {one[0] for one in tensors(tmp_path / "out.gguf").values()} == {"F32", "BF16"}


def test_rows_of_zeros_are_blocks_of_zeros(store, tmp_path):
    """Their scale is 1e-7, which F16 lacks, and nothing is multiplied by it."""
    source = normal(checkpoint(tmp_path / "in", "llama"))
    path = source / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + length])["model.embed_tokens.weight"]["data_offsets"]
    begin, end = begin + 8 + length, end + 8 + length
    half = begin + (end - begin) // 2
    path.write_bytes(data[:half] + bytes(end - half) + data[end:])
    stored(store, source, "int4/32")

    export(store, tmp_path / "out.gguf", "gguf")

    kind, _, blocks = tensors(tmp_path / "out.gguf")["token_embd.weight"]
    assert kind == "Q4_1"
    assert not any(blocks[len(blocks) // 2 :])
    assert any(blocks[: len(blocks) // 2])


def test_another_type_is_made_of_the_values(store, tmp_path):
    stored(store, normal(checkpoint(tmp_path / "in", "llama")), "int4/32")

    export(store, tmp_path / "a.gguf", "gguf", q="q4_0")
    export(store, tmp_path / "b.gguf", "gguf", q="bf16")

    kinds = {one[0] for one in tensors(tmp_path / "a.gguf").values()}
    assert kinds == {"F32", "Q4_0", "Q8_0"}
    assert {one[0] for one in tensors(tmp_path / "b.gguf").values()} == {"F32", "BF16"}


def test_mxfp4_stays_what_it_is_in_any_matrix(store, tmp_path):
    stored(store, checkpoint(tmp_path / "in", "llama"), "mxfp4")
    export(store, tmp_path / "mlx", "mlx")

    export(store, tmp_path / "out.gguf", "gguf")

    kind, _, blocks = tensors(tmp_path / "out.gguf")["blk.0.ffn_down.weight"]
    assert kind == "MXFP4"
    made = arrays(tmp_path / "mlx")["model.layers.0.mlp.down_proj.scales"]
    assert blocks[::17] == made[2]
