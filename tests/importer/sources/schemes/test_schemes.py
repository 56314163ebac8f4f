"""Weights that somebody quantized already, told by names and dtypes (formats: gptq, fp8)."""

from __future__ import annotations

import pytest

from importer.sources.dtypes import is_floating
from importer.sources.schemes.registry import scheme_of

L = "model.layers.0.mlp.up_proj"
E = "model.layers.0.mlp.experts"
DEEPSEEK = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def scheme(tensors, method=None, **config):
    if method is not None:
        config["quantization_config"] = {"quant_method": method}
    return scheme_of(tensors.items(), config)


@pytest.mark.parametrize(
    ("tensors", "method", "expected"),
    [
        (
            {
                f"{L}.qweight": "I32",
                f"{L}.qzeros": "I32",
                f"{L}.scales": "F16",
                f"{L}.g_idx": "I32",
            },
            "gptq",
            "gptq",
        ),
        ({f"{L}.qweight": "I32", f"{L}.qzeros": "I32", f"{L}.scales": "F16"}, "awq", "awq"),
        ({f"{L}.qweight": "I32", f"{L}.scales": "F16"}, None, "gptq"),
        (
            {f"{L}.weight": "U32", f"{L}.scales": "BF16", f"{L}.biases": "BF16"},
            None,
            "mlx",
        ),
        ({f"{L}.weight": "U32", f"{L}.scales": "U8"}, None, "mlx"),
        (
            {
                f"{L}.weight": "U8",
                f"{L}.weight.absmax": "U8",
                f"{L}.weight.quant_map": "F32",
                f"{L}.weight.quant_state.bitsandbytes__nf4": "U8",
            },
            "bitsandbytes",
            "bitsandbytes",
        ),
        ({f"{L}.weight": "I8", f"{L}.SCB": "F32"}, "bitsandbytes", "bitsandbytes"),
        (
            {f"{L}.weight": "F8_E4M3", f"{L}.weight_scale_inv": "F32"},
            "fp8",
            "fp8-block",
        ),
        ({f"{L}.weight": "F8_E4M3", f"{L}.weight_scale": "F32"}, None, "fp8"),
        ({f"{L}.weight": "F8_E4M3", f"{L}.weight_scale": "F32"}, "fp8", "fp8"),
        ({f"{L}.weight": "F8_E4M3", f"{L}.weight_scale": "F32"}, "fbgemm_fp8", "fp8"),
        ({f"{L}.weight": "F8_E4M3", f"{L}.weight_scale": "F32"}, "quark", "unknown"),
        ({f"{L}.weight": "F8_E4M3", f"{L}.weight_scale_inv": "F32"}, "a fork", "fp8-block"),
        # DeepSeek's own, diffusion models in single files, Mistral's own
        ({f"{L}.weight": "F8_E4M3", f"{L}.scale": "F8_E8M0"}, None, "fp8"),
        ({f"{L}.weight": "F8_E4M3", f"{L}.scale_weight": "F32"}, None, "fp8"),
        ({f"{L}.weight": "F8_E4M3", f"{L}.qscale_weight": "F32"}, None, "fp8"),
        # Stacked experts
        ({f"{E}.down_proj": "F8_E4M3", f"{E}.down_proj_scale": "F32"}, None, "fp8"),
        ({f"{E}.down_proj": "F8_E4M3", f"{E}.down_proj_scale_inv": "F32"}, None, "fp8-block"),
        (
            {f"{L}.weight": "F8_E4M3", f"{L}.weight_scale": "BF16"},
            "compressed-tensors",
            "compressed-tensors",
        ),
        (
            {f"{L}.weight": "I8", f"{L}.weight_scale": "F32"},
            "compressed-tensors",
            "compressed-tensors",
        ),
        (
            {f"{L}.weight_packed": "U8", f"{L}.weight_scale": "F8_E4M3"},
            None,
            "compressed-tensors",
        ),
        (
            {f"{L}.weight_packed": "I32", f"{L}.weight_shape": "I64"},
            "compressed-tensors",
            "compressed-tensors",
        ),
        (
            {
                f"{L}.weight": "U8",
                f"{L}.weight_scale": "F8_E4M3",
                f"{L}.weight_scale_2": "F32",
                f"{L}.input_scale": "F32",
            },
            "modelopt",
            "modelopt",
        ),
        (
            # Older exports say it in hf_quant_config.json alone.
            {
                f"{L}.weight": "U8",
                f"{L}.weight_scale": "F8_E4M3",
                f"{L}.weight_scale_2": "F32",
            },
            None,
            "modelopt",
        ),
        ({f"{L}.weight": "F8_E4M3", f"{L}.weight_scale": "U8"}, "modelopt", "modelopt"),
        (
            {f"{E}.gate_up_proj_blocks": "U8", f"{E}.gate_up_proj_scales": "U8"},
            "mxfp4",
            "mxfp4",
        ),
        (
            {"block.0.mlp.mlp1_weight.blocks": "U8", "block.0.mlp.mlp1_weight.scales": "U8"},
            None,
            "mxfp4",
        ),
    ],
)  # fmt: skip
def test_a_scheme_is_recognized_by_its_tensors(tensors, method, expected):
    assert scheme({"model.norm.weight": "BF16", **tensors}, method) == expected


@pytest.mark.parametrize(
    "tensors",
    [
        {f"{L}.weight": "BF16"},
        {f"{L}.weight": "BF16", f"{L}.bias": "BF16"},
        # Plain FP8 weights, as diffusion models ship them: floats without scales.
        {f"{L}.weight": "F8_E4M3"},
        {f"{L}.weight": "F8_E5M2"},
        # A float with a learned scale is no quantized weight.
        {f"{L}.weight": "BF16", f"{L}.weight_scale": "F32"},
        {f"{L}.weight_scale": "F32"},
        {f"{L}.weight": "U32"},
        {f"{L}.scales": "F16"},
        {f"{L}.qweight": "F16"},
        {f"{L}.SCB": "F32"},
        {"transformer_blocks": "F32", "transformer_scales": "U8", "x": "I64"},
        {f"{E}.gate_up_proj_blocks": "U8"},
    ],
)
def test_plain_tensors_are_no_scheme(tensors):
    assert scheme(tensors) is None


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "mxfp4", "bitsandbytes"])
def test_a_claim_without_tensors_is_a_claim_about_another_file(method):
    assert scheme({f"{L}.weight": "BF16"}, method) is None


@pytest.mark.parametrize("declared", [None, [], "gptq", {}, {"quant_method": 4}, {"bits": 4}])
def test_an_odd_claim_does_no_harm(declared):
    tensors = {f"{L}.weight": "F8_E4M3", f"{L}.weight_scale_inv": "F32"}

    assert scheme_of(tensors.items(), {"quantization_config": declared}) == "fp8-block"


def test_our_own_quantized_tensors_are_no_foreign_scheme():
    tensors = {f"{L}.weight": "U32", f"{L}.weight.scale": "BF16", f"{L}.weight.bias": "BF16"}

    assert scheme(tensors) is None


def test_one_quantized_tensor_among_many_decides():
    tensors = {f"model.layers.{number}.weight": "BF16" for number in range(100)}

    assert scheme({**tensors, "lm_head.qweight": "I32"}, "gptq") == "gptq"


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F64", "F8_E4M3", "F4", "F8_E8M0"])
def test_real_numbers_are_floating(dtype):
    assert is_floating(dtype)


@pytest.mark.parametrize("dtype", ["BOOL", "U8", "I8", "I64", "U32"])
def test_integers_are_not_floating(dtype):
    assert not is_floating(dtype)
