"""Codes that have lost their scales, and scales that have lost their codes."""

from __future__ import annotations

import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.builders import model

L = "model.layers.0.self_attn"
Q, K, E = f"{L}.q_proj", f"{L}.k_proj", "model.layers.0.mlp.experts"
F8, I8, U8 = ("F8_E4M3", (64, 64)), ("I8", (64, 64)), ("U8", (64, 32))
U32, STACK = ("U32", (64, 8)), ("F8_E4M3", (2, 64, 64))
ONE, ROWS, GROUPS = ("F32", ()), ("F32", (64,)), ("BF16", (64, 1))


def declared(method, **facts):
    return {"quantization_config": {"quant_method": method, **facts}}


def modelopt(algorithm, **facts):
    return declared("modelopt", quant_algo=algorithm, **facts)


BLOCKS = declared("fp8", weight_block_size=[128, 128])
GROUP = {
    "targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
}
CT = declared("compressed-tensors", config_groups={"g": GROUP})
MLX = {"quantization": {"bits": 4, "group_size": 64}}
TRIPLET = {f"{K}.weight": U32, f"{K}.scales": GROUPS, f"{K}.biases": GROUPS}
FP8 = {f"{K}.weight": F8, f"{K}.weight_scale": ONE}
NVFP4 = {
    f"{K}.weight": U8,
    f"{K}.weight_scale": ("F8_E4M3", (64, 4)),
    f"{K}.weight_scale_2": ONE,
}
GPTQ = {
    f"{K}.qweight": ("I32", (8, 64)),
    f"{K}.qzeros": ("I32", (2, 8), b"\x77" * 64),
    f"{K}.scales": ("F16", (2, 64)),
}
BNB = {f"{K}.weight": I8, f"{K}.SCB": ROWS}
OSS = {f"{E}.up_blocks": ("U8", (2, 4, 2, 16)), f"{E}.up_scales": ("U8", (2, 4, 2))}

LOST = {
    "FP8": ({f"{Q}.weight": F8}, modelopt("FP8"), f"{Q}.weight", f"{Q}.weight_scale"),
    "FP8 among others": (
        FP8 | {f"{Q}.weight": F8}, modelopt("FP8"), f"{Q}.weight", f"{Q}.weight_scale",
    ),
    "FP8 in blocks": ({f"{Q}.weight": F8}, BLOCKS, f"{Q}.weight", f"{Q}.weight_scale_inv"),
    "FP8 of fbgemm": (
        {f"{Q}.weight": F8}, declared("fbgemm_fp8"), f"{Q}.weight", f"{Q}.weight_scale",
    ),
    "FP8 of compressed-tensors": ({f"{Q}.weight": F8}, CT, f"{Q}.weight", f"{Q}.weight_scale"),
    "experts of ModelOpt": (
        FP8 | {f"{E}.up": STACK}, modelopt("FP8"), f"{E}.up", f"{E}.up_weight_scale",
    ),
    "experts in blocks": (
        {f"{E}.up": STACK, f"{E}.down": STACK, f"{E}.down_scale_inv": ("F32", (2, 1, 1))},
        BLOCKS, f"{E}.up", f"{E}.up_scale_inv",
    ),
    "experts of compressed-tensors": (FP8 | {f"{E}.up": STACK}, CT, f"{E}.up", f"{E}.up_scale"),
    "NVFP4": (
        NVFP4 | {f"{Q}.weight": U8}, modelopt("NVFP4"), f"{Q}.weight", f"{Q}.weight_scale",
    ),
    "NVFP4 with its second scale": (
        NVFP4 | {f"{Q}.weight": U8, f"{Q}.weight_scale_2": ONE}, modelopt("NVFP4"),
        f"{Q}.weight", f"{Q}.weight_scale",
    ),
    "NVFP4 that nothing declares": (
        NVFP4 | {f"{Q}.weight": U8}, {}, f"{Q}.weight", f"{Q}.weight_scale",
    ),
    "W8A16": (
        {f"{Q}.weight": I8, f"{K}.weight": I8, f"{K}.weight_scale": ROWS}, modelopt("W8A16"),
        f"{Q}.weight", f"{Q}.weight_scale",
    ),
    "int8 of bitsandbytes": (
        BNB | {f"{Q}.weight": I8}, declared("bitsandbytes"), f"{Q}.weight", f"{Q}.SCB",
    ),
    "int8 with its format": (
        {f"{Q}.weight": I8, f"{Q}.weight_format": ("U8", ())}, {}, f"{Q}.weight", f"{Q}.SCB",
    ),
    "4 bits of bitsandbytes": (
        {f"{Q}.weight": ("U8", (2048, 1))}, declared("bitsandbytes"), f"{Q}.weight",
        f"{Q}.weight.absmax",
    ),
    "4 bits with their map": (
        {f"{Q}.weight": ("U8", (2048, 1)), f"{Q}.weight.quant_map": ("F32", (16,))}, {},
        f"{Q}.weight", f"{Q}.weight.absmax",
    ),
    "MLX": (TRIPLET | {f"{Q}.weight": U32}, MLX, f"{Q}.weight", f"{Q}.scales"),
    "MLX that nothing declares": (
        {f"{K}.weight": U32, f"{K}.scales": ("U8", (64, 2)), f"{Q}.weight": U32}, {},
        f"{Q}.weight", f"{Q}.scales",
    ),
    "MLX as I32": (
        TRIPLET
        | {f"{Q}.weight": ("I32", (64, 8)), f"{Q}.scales": GROUPS, f"{Q}.biases": GROUPS},
        MLX, f"{Q}.weight", "expected U32",
    ),
    "scales of MLX": (
        TRIPLET | {f"{Q}.scales": GROUPS, f"{Q}.biases": GROUPS}, MLX, f"{Q}.scales",
        f"{Q}.weight",
    ),
    "scales of FP8": (
        FP8 | {f"{Q}.weight_scale_inv": ("F32", (1, 1))}, BLOCKS, f"{Q}.weight_scale_inv",
        f"{Q}.weight",
    ),
    "zero points of GPTQ": (
        {f"{Q}.qzeros": GPTQ[f"{K}.qzeros"]}, {}, f"{Q}.qzeros", f"{Q}.qweight",
    ),
    "scales of GPTQ": (
        GPTQ | {f"{Q}.scales": GPTQ[f"{K}.scales"]}, {}, f"{Q}.scales", f"{Q}.qweight",
    ),
    "order of GPTQ": (
        {f"{Q}.g_idx": ("I32", (64,))}, declared("gptq", bits=4), f"{Q}.g_idx", f"{Q}.qweight",
    ),
    "scales of GPT-OSS": (
        {f"{E}.up_scales": ("U8", (2, 64, 2))}, declared("mxfp4"), f"{E}.up_scales",
        f"{E}.up_blocks",
    ),
    "scales of GPT-OSS among others": (
        OSS | {f"{E}.down_scales": ("U8", (2, 64, 2))}, {}, f"{E}.down_scales",
        f"{E}.down_blocks",
    ),
    "magnitudes of bitsandbytes": (
        BNB | {f"{Q}.weight.absmax": ROWS}, declared("bitsandbytes"), f"{Q}.weight.absmax",
        f"{Q}.weight",
    ),
}  # fmt: skip
"""Arrays, configuration, and the names of what is there and of what is missing."""


@pytest.mark.parametrize("what", LOST)
def test_half_of_a_weight_is_damage(tmp_path, what):
    arrays, config, there, missing = LOST[what]
    norm = {"model.norm.weight": ("BF16", (64,))}

    with pytest.raises(InputError) as caught:
        read_inventory(model(tmp_path / "s", arrays | norm, config))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_PAIR", 3)
    assert str(caught.value).startswith(f"`model.safetensors`: `{there}` ")
    assert missing in str(caught.value)


@pytest.mark.parametrize(
    "left_out",
    [
        {"ignore": [Q]},
        {"ignore": ["re:.*q_proj$"]},
        {"exclude_modules": ["*self_attn.q*"]},
        {"modules_to_not_convert": ["q_proj"]},
        {"modules_to_not_convert": ["model.layers.*.self_attn"]},
        {"modules_to_not_convert": [r"model\.layers\.\d+\.self_attn"]},
        {"llm_int8_skip_modules": ["self_attn"]},
    ],
)
@pytest.mark.parametrize("config", [BLOCKS, CT, modelopt("FP8"), declared("fbgemm_fp8")])
def test_a_module_that_is_left_out_may_have_plain_codes(tmp_path, config, left_out):
    said = {"quantization_config": config["quantization_config"] | left_out}

    (found,) = read_inventory(model(tmp_path / "s", {f"{Q}.weight": F8}, said)).tensors

    assert (found.name, found.dtype) == (f"{Q}.weight", "F8_E4M3")


@pytest.mark.parametrize(
    "left_out", [{"ignore": ["lm_head"]}, {"modules_to_not_convert": ["self_attn.q"]}]
)
def test_one_that_is_not_left_out_may_not(tmp_path, left_out):
    said = declared("fp8", **left_out)

    with pytest.raises(InputError, match="has no scale"):
        read_inventory(model(tmp_path / "s", {f"{K}.weight": F8}, said))


@pytest.mark.parametrize(
    ("arrays", "config"),
    [
        ({f"{Q}.weight": F8}, {}),
        (FP8 | {"shared.weight": F8}, {}),
        ({f"{Q}.weight": F8}, modelopt("MIXED_PRECISION", quantized_layers={})),
        (TRIPLET | {"a.weight": U32}, {"quantization": {K: {"bits": 4, "group_size": 64}}}),
        ({f"{Q}.scales": GROUPS, f"{Q}.biases": GROUPS}, {}),
        ({f"{Q}.scales": GROUPS}, MLX | {"quantization": {K: False}}),
        ({"a.position_bias": ("I8", (4, 4)), **BNB}, declared("bitsandbytes")),
        ({f"{Q}.weight": I8}, {}),
        ({"transformer_scales": ("U8", (4, 4))}, {}),
    ],
)
def test_what_nothing_calls_codes_is_plain(tmp_path, arrays, config):
    assert read_inventory(model(tmp_path / "s", arrays, config)).tensors


@pytest.mark.parametrize("config", [{}, BLOCKS])
def test_integers_under_the_names_of_fp8_are_of_a_form_that_is_not_known(tmp_path, config):
    arrays = {f"{Q}.weight": I8, f"{Q}.weight_scale_inv": ("F32", (1, 1))}

    with pytest.raises(UnsupportedError, match=f"`{Q}[.]weight") as caught:
        read_inventory(model(tmp_path / "s", arrays, config))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


@pytest.mark.parametrize("word", ["left_out_{}", "left_out_{}*", "re:left_out_{}"])
def test_many_names_that_are_left_out_take_little_time(tmp_path, word):
    said = declared("fp8", modules_to_not_convert=[word.format(at) for at in range(20_000)])
    arrays = {f"a{at}.weight": ("F8_E4M3", (1, 1)) for at in range(1_000)}
    patient = {f"left_out_1.{name}": array for name, array in arrays.items()}

    assert len(read_inventory(model(tmp_path / "s", patient, said)).tensors) == 1_000
