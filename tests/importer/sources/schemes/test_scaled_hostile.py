"""Configurations and arrays of FP8, FP4 and packed integers that contradict each other."""

from __future__ import annotations

import struct

import pytest

from importer.recipes.options import parse_options
from importer.sources.inventory import read_inventory
from importer.sources.schemes.contents import is_needed
from store import ModelName, Store
from store.errors import InputError, UnsupportedError
from tests.importer.builders import create, safetensors, write

NAME = ModelName.parse("m")
PAIR, CONFIG = "E_QUANT_PAIR", "E_CONFIG"
W8, S32 = ("F8_E4M3", (200, 300)), ("F32", (2, 3))
BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}
FP8 = {"a.weight": W8, "a.weight_scale_inv": S32}


def ct(weights=None, targets=("Linear",), **facts):
    group = {
        "targets": list(targets),
        "weights": {"num_bits": 4, "group_size": 32} | (weights or {}),
    }
    return {"quant_method": "compressed-tensors", "config_groups": {"g": group}, **facts}


TWO = ct()
TWO["config_groups"]["mine"] = {
    "targets": ["re:^[a-c]$"],
    "weights": {"num_bits": 8, "group_size": 32},
}
TWO["config_groups"]["g"]["targets"] = ["re:.*mlp.*"]
PACKED = {
    "a.weight_packed": ("I32", (4, 8)),
    "a.weight_scale": ("BF16", (4, 2)),
    "a.weight_shape": ("I64", (2,)),
}
ZERO = {**PACKED, "a.weight_zero_point": ("I32", (1, 2))}
ASYMMETRIC = ct({"symmetric": False})
FP4 = {
    "a.weight_packed": ("U8", (4, 16)),
    "a.weight_scale": ("F8_E4M3", (4, 2)),
    "a.weight_global_scale": ("F32", (1,)),
}
NV = {"type": "float", "strategy": "tensor_group", "group_size": 16}
BYTES = {"a.weight": ("I8", (4, 32)), "a.weight_scale": ("F32", (4, 1))}
CHANNEL = ct({"num_bits": 8, "strategy": "channel", "group_size": None})


def mo(algorithm, **facts):
    return {"quant_method": "modelopt", "quant_algo": algorithm, **facts}


NVFP4 = {
    "a.weight": ("U8", (4, 16)),
    "a.weight_scale": ("F8_E4M3", (4, 2)),
    "a.weight_scale_2": ("F32", ()),
}
DOWN = {
    "e.up": ("U8", (2, 16, 8)),
    "e.up_weight_scale": ("F8_E4M3", (2, 2, 8)),
    "e.up_weight_scale_2": ("F32", ()),
}
INT4 = {"a.weight": ("U8", (2, 32)), "a.weight_scale": ("F32", (4, 1))}
BLOCKS = {"e.w_blocks": ("U8", (2, 4, 1, 16)), "e.w_scales": ("U8", (2, 4, 1))}
MXFP4 = {"quant_method": "mxfp4"}

BAD = {
    "blocks": (FP8 | {"a.weight_scale_inv": ("F32", (3, 2))}, BLOCK, PAIR, "128x128"),
    "one scale": (FP8 | {"a.weight_scale_inv": ("F32", (1,))}, BLOCK, PAIR, "128x128"),
    "blocks of other sides": (
        FP8, BLOCK | {"weight_block_size": [64, 128]}, PAIR, "weight_block_size",
    ),
    "blocks of three sides": (
        FP8, BLOCK | {"weight_block_size": [1, 2, 3]}, CONFIG, "[1, 2, 3]",
    ),
    "blocks of nothing": (FP8, BLOCK | {"weight_block_size": [0, 128]}, CONFIG, "[0, 128]"),
    "blocks that are words": (FP8, BLOCK | {"weight_block_size": "big"}, CONFIG, "big"),
    "blocks that are true": (FP8, BLOCK | {"weight_block_size": [True, 1]}, CONFIG, "True"),
    "huge blocks": (FP8, BLOCK | {"weight_block_size": [1 << 70, 1]}, CONFIG, "two positive"),
    "scales of no grid": (
        {"a.weight": ("F8_E4M3", (7, 5)), "a.weight_scale": ("F32", (3, 2))}, None, PAIR,
        "blocks",
    ),
    "scales without shape": (
        {"a.weight": ("F8_E4M3", (7, 5)), "a.weight_scale": ("F32", (0,))}, None, PAIR, "[0]",
    ),
    "integer scales": (FP8 | {"a.weight_scale_inv": ("I32", (2, 3))}, BLOCK, PAIR, "is I32"),
    "two scales": (
        {"a.weight": W8, "a.weight_scale": S32, "a.scale": S32}, None, PAIR, "two scales",
    ),
    "no scale": ({"a.weight": W8}, BLOCK, PAIR, "has no scale"),
    "experts that are square": (
        {"e.up": ("F8_E4M3", (2, 8, 8)), "e.up_scale": ("F32", (2, 8))}, None, PAIR, "[2, 8]",
    ),
    "bits": (PACKED, ct({"num_bits": 8}), PAIR, "8 bits in groups of 32"),
    "groups": (PACKED, ct({"group_size": 64}), PAIR, "groups of 64"),
    "channels": (PACKED, ct({"strategy": "channel", "group_size": None}), PAIR, "by channel"),
    "floats": (PACKED, ct({"type": "float"}), PAIR, "float of 4 bits"),
    "0 bits": (PACKED, ct({"num_bits": 0}), CONFIG, "num_bits"),
    "bits as a word": (PACKED, ct({"num_bits": "4"}), CONFIG, "num_bits"),
    "groups of 0": (PACKED, ct({"group_size": 0, "strategy": "group"}), CONFIG, "group_size"),
    "another strategy": (PACKED, ct({"strategy": "spiral"}), CONFIG, "spiral"),
    "another type": (PACKED, ct({"type": "complex"}), CONFIG, "complex"),
    "symmetric": (PACKED, ct({"symmetric": "yes"}), CONFIG, "symmetric"),
    "block structure": (
        PACKED, ct({"strategy": "block", "group_size": None, "block_structure": [1]}), CONFIG,
        "block_structure",
    ),
    "ignored by an expression": (PACKED, ct(ignore=["re:.*a$"]), PAIR, "`ignore`"),
    "bits of an expression": (PACKED, TWO, PAIR, "8 bits in groups of 32 (mine)"),
    "ignored": (PACKED, ct(ignore=["a"]), PAIR, "`ignore`"),
    "no scale of words": (
        {name: PACKED[name] for name in ("a.weight_packed", "a.weight_shape")}, ct(), PAIR,
        "a.weight_scale",
    ),
    "words of another dtype": (
        PACKED | {"a.weight_packed": ("I64", (4, 8))}, ct(), PAIR, "is I64",
    ),
    "scales of 64 bits": (PACKED | {"a.weight_scale": ("F64", (4, 2))}, ct(), PAIR, "is F64"),
    "rows": (PACKED | {"a.weight_scale": ("BF16", (3, 2))}, ct(), PAIR, "[3, 2]"),
    "no zero points": (PACKED, ASYMMETRIC, PAIR, "config.json says"),
    "zero points": (ZERO, ct(), PAIR, "config.json says"),
    "few zero points": (
        ZERO | {"a.weight_zero_point": ("I32", (1, 1))}, ASYMMETRIC, PAIR, "[1, 2]",
    ),
    "groups of columns": (PACKED | {"a.weight_g_idx": ("I32", (63,))}, ct(), PAIR, "[64]"),
    "a shape of three numbers": (
        PACKED | {"a.weight_shape": ("I64", (9,))}, ct(), PAIR, "expected I64 [2]",
    ),
    "a shape that is a float": (
        PACKED | {"a.weight_shape": ("F32", (2,))}, ct(), PAIR, "expected I64 [2]",
    ),
    "nothing declared": (PACKED | {"a.weight_packed": ("I32", (4, 9))}, None, PAIR, "nothing"),
    "bytes of floats": (BYTES, ct({"num_bits": 8, "type": "float"}), PAIR, "float of 8 bits"),
    "bytes in groups": (BYTES, ct({"num_bits": 8, "group_size": 16}), PAIR, "groups of 16"),
    "zero points of bytes": (
        BYTES | {"a.weight_zero_point": ("I8", (4, 2))}, CHANNEL, PAIR, "[4, 2]",
    ),
    "bytes without a scale": ({"a.weight": ("I8", (4, 32))}, CHANNEL, PAIR, "a.weight_scale"),
    "a scale of nothing": ({"a.weight_scale": ("F32", (4, 1))}, CHANNEL, PAIR, "not there"),
    "fp4 in groups of 32": (FP4, ct({**NV, "group_size": 32}), PAIR, "groups of 16"),
    "fp4 that is integers": (FP4, ct(), PAIR, "int of 4 bits"),
    "fp4 with half a scale": (
        FP4 | {"a.weight_scale": ("F8_E4M3", (4, 3))}, ct(NV), PAIR, "does not fit",
    ),
    "fp4 with scales of another dtype": (
        FP4 | {"a.weight_scale": ("F32", (4, 2))}, ct(NV), PAIR, "expected F8_E4M3",
    ),
    "fp4 with two divisors": (
        FP4 | {"a.weight_global_scale": ("F32", (2,))}, ct(NV), PAIR, "[2]",
    ),
    "fp4 without a divisor": (
        {name: FP4[name] for name in ("a.weight_packed", "a.weight_scale")}, ct(NV), PAIR,
        "weight_global_scale",
    ),
    "nvfp4 that is fp8": (NVFP4, mo("FP8"), PAIR, "says FP8"),
    "nvfp4 in groups of 32": (NVFP4, mo("NVFP4", group_size=32), PAIR, "groups of 32"),
    "nvfp4 with a scale for each row": (
        NVFP4 | {"a.weight_scale_2": ("F32", (4,))}, mo("NVFP4"), PAIR, "4 numbers",
    ),
    "nvfp4 with scales of another dtype": (
        NVFP4 | {"a.weight_scale_2": ("F16", ())}, mo("NVFP4"), PAIR, "expected U8",
    ),
    "experts in groups of 8 rows": (
        DOWN | {"e.up_weight_scale": ("F8_E4M3", (2, 4, 8))}, mo("NVFP4"), PAIR, "does not fit",
    ),
    "experts of other columns": (
        DOWN | {"e.up_weight_scale": ("F8_E4M3", (2, 2, 7))}, mo("NVFP4"), PAIR, "does not fit",
    ),
    "experts with three scales": (
        DOWN | {"e.up_weight_scale_2": ("F32", (3,))}, mo("NVFP4"), PAIR, "3 numbers",
    ),
    "experts that are fp8": (DOWN, mo("FP8"), PAIR, "says FP8"),
    "experts that are excluded": (
        DOWN, mo("NVFP4", exclude_modules=["e*"]), PAIR, "is not quantized",
    ),
    "excluded": (NVFP4, mo("NVFP4", exclude_modules=["a*"]), PAIR, "is not quantized"),
    "negative groups": (NVFP4, mo("NVFP4", group_size=-1), CONFIG, "group_size"),
    "an algorithm that is a number": (NVFP4, mo(4), CONFIG, "quant_algo"),
    "int4 of odd groups": (
        INT4 | {"a.weight_scale": ("F32", (4, 5))}, mo("W4A16_AWQ"), PAIR, "does not fit",
    ),
    "int4 of as many rows": (
        INT4 | {"a.weight_scale": ("F32", (2, 1))}, mo("W4A16_AWQ"), PAIR, "does not fit",
    ),
    "inputs of another width": (
        INT4 | {"a.pre_quant_scale": ("BF16", (31,))}, mo("W4A16_AWQ"), PAIR, "[31]",
    ),
    "int8 by blocks": (
        {"a.weight": ("I8", (4, 32)), "a.weight_scale": ("F32", (2, 2))}, mo("W8A16"), PAIR,
        "one for each row",
    ),
    "a weight that is not there": (
        {"a.weight_scale": ("F32", (4, 1))}, mo("W8A16"), PAIR, "not there",
    ),
    "blocks of 8 bytes": (BLOCKS | {"e.w_blocks": ("U8", (2, 4, 1, 8))}, MXFP4, PAIR, "needs"),
    "blocks without scales": ({"e.w_blocks": ("U8", (2, 4, 1, 16))}, MXFP4, PAIR, "e.w_scales"),
    "blocks of other rows": (BLOCKS | {"e.w_scales": ("U8", (2, 3, 1))}, MXFP4, PAIR, "needs"),
    "a weight of that name": (
        BLOCKS | {"e.w.weight": ("BF16", (2, 4, 32))}, MXFP4, PAIR, "both there",
    ),
}  # fmt: skip


def source(directory, tensors, quantization, values=None):
    """A checkpoint with noise for weights, and 4 x 64 for the logical shape of `a`."""
    content = bytearray(safetensors(tensors))
    shape = values or struct.pack("<2q", 4, 64)
    if tensors.get("a.weight_shape") == ("I64", (2,)):
        at = 8 + int.from_bytes(content[:8], "little")
        at += _place(tensors, "a.weight_shape")
        content[at : at + 16] = shape
    config = {} if quantization is None else {"quantization_config": quantization}
    return write(directory, {"model.safetensors": bytes(content), "config.json": config})


def _place(tensors, wanted):
    import json

    content = safetensors(tensors)
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length])[wanted]["data_offsets"][0]


@pytest.mark.parametrize("what", BAD)
def test_what_contradicts_itself_is_refused(tmp_path, what):
    tensors, quantization, code, words = BAD[what]

    with pytest.raises(InputError) as caught:
        read_inventory(source(tmp_path / "s", tensors, quantization))

    assert (caught.value.code, caught.value.exit_code) == (code, 3)
    assert words in str(caught.value)


@pytest.mark.parametrize("sides", [(5, 64), (4, 65), (4, 1 << 62), (4, -64), (1 << 62, 64)])
def test_a_shape_that_lies_is_refused(tmp_path, sides):
    made = source(tmp_path / "s", PACKED, ct(), struct.pack("<2q", *sides))

    with pytest.raises(InputError) as caught:
        read_inventory(made)

    assert caught.value.code == PAIR


@pytest.mark.parametrize("order", [[0] * 64, [2] * 64, [-2] * 64, [1 << 30] * 64])
def test_groups_of_columns_that_are_not_whole_are_refused(tmp_path, order):
    tensors = PACKED | {"a.weight_g_idx": ("I32", (64,))}
    made = source(tmp_path / "s", tensors, ct())
    path = made / "model.safetensors"
    content = bytearray(path.read_bytes())
    at = 8 + int.from_bytes(content[:8], "little") + _place(tensors, "a.weight_g_idx")
    content[at : at + 256] = struct.pack("<64i", *order)
    path.write_bytes(content)

    with Store(tmp_path / "store") as store, pytest.raises(InputError) as caught:
        create(store, made, recipe=parse_options("int8", allow_nonfinite=True))

    assert caught.value.code == PAIR


@pytest.mark.parametrize(
    ("tensors", "quantization", "words"),
    [
        (PACKED | {"a.scale_packed": ("F16", (1, 4))}, ct(), "marlin-24"),
        (
            {"a.weight_packed": ("U8", (4, 24)), "a.weight_scale": ("U8", (4, 1))},
            ct({"num_bits": 6, "type": "float"}),
            "mxfp6",
        ),
        # What compressed-tensors 0.20 writes of 1 bit, in groups of 32
        (
            {
                "a.weight_packed": ("I32", (4, 2)),
                "a.weight_scale": ("BF16", (4, 2)),
                "a.weight_zero_point": ("I32", (1, 2)),
                "a.weight_shape": ("I64", (2,), struct.pack("<2q", 4, 64)),
            },
            ct({"num_bits": 1, "symmetric": False}),
            "int of 1 bits",
        ),
        ({"a.weight": ("F8_E4M3FNUZ", (4, 4)), "a.weight_scale": ("F32", ())}, None, "FNUZ"),
        (NVFP4 | {"a.svdquant_lora_a": ("BF16", (4, 2))}, mo("NVFP4_SVD"), "svdquant_lora_a"),
        (
            {name: FP4[name] for name in ("a.weight_packed", "a.weight_scale")}
            | {"a.global_scale": ("F32", (1,))},
            ct(NV),
            "a.global_scale",
        ),
    ],
)
def test_a_form_that_is_not_decoded_is_refused_by_name(tmp_path, tensors, quantization, words):
    with pytest.raises(UnsupportedError, match=words) as caught:
        read_inventory(source(tmp_path / "s", tensors, quantization))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)
    assert "`model.safetensors`: `a.w" in str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "quantization"),
    [
        (DOWN | {"e.up_pre_quant_scale": ("BF16", (32,))}, mo("NVFP4_AWQ")),
        ({"e.up": ("U8", (2, 8, 8)), "e.up_weight_scale": ("F32", (2, 16, 1))}, mo("INT4_AWQ")),
        (
            {"e.up": ("F8_E4M3", (2, 8, 4)), "e.up_weight_scale": ("F32", (2, 1, 1, 1, 1))},
            mo("fp8_pb_wo"),
        ),
        ({"e.up_packed": ("U8", (2, 8, 8)), "e.up_scale": ("F8_E4M3", (2, 8, 1))}, ct(NV)),
        ({"e.up": ("U8", (2, 8, 8)), "e.up_scale": ("F8_E4M3", (2, 8, 1))}, ct(NV)),
        (
            {
                "e.up_weight_packed": ("U8", (2, 8, 8)),
                "e.up_weight_scale": ("F8_E4M3", (2, 8, 1)),
            },
            ct(NV),
        ),
    ],
)
def test_stacked_experts_of_another_form_are_refused(tmp_path, tensors, quantization):
    with pytest.raises(UnsupportedError, match=r"`e[.]up") as caught:
        read_inventory(source(tmp_path / "s", tensors, quantization))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


@pytest.mark.parametrize(
    ("tensors", "quantization"),
    [
        ({"a.weight": ("F8_E4M3", (1, 1 << 21)), "a.weight_scale": ("F32", ())}, None),
        (
            {
                "a.weight_packed": ("I32", (1, 1 << 18)),
                "a.weight_scale": ("BF16", (1, 1 << 16)),
            },
            ct(),
        ),
    ],
)
def test_rows_that_take_too_much_memory_are_refused(tmp_path, tensors, quantization):
    with pytest.raises(UnsupportedError, match="columns, the limit is 1048576") as caught:
        read_inventory(source(tmp_path / "s", tensors, quantization))

    assert caught.value.code == "E_QUANT_FORMAT"


def test_an_algorithm_that_is_not_known_is_named(tmp_path):
    with pytest.raises(UnsupportedError, match="W1A1") as caught:
        read_inventory(source(tmp_path / "s", NVFP4, mo("W1A1")))

    assert caught.value.exit_code == 4


@pytest.mark.parametrize("target", ["re:(a)\\1", "re:(?=x)a", "re:(", "re:" + "(a|a)*" * 40])
def test_an_expression_that_is_not_decided_leaves_the_shapes(tmp_path, target):
    said = ct(targets=[target])

    (found,) = read_inventory(source(tmp_path / "s", PACKED, said)).tensors

    assert found.stored_as == "compressed-tensors int4/32"


@pytest.mark.parametrize("end", ["weight_shape", "weight_global_scale"])
def test_numbers_that_a_plan_needs_are_fetched_with_the_headers(end):
    assert is_needed(f"model.layers.0.mlp.up_proj.{end}", 16)
    assert not is_needed("model.layers.0.mlp.up_proj.weight_packed", 16)
