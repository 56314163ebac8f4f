"""Small checkpoints of architectures that mlx-lm knows, written without torch."""

from __future__ import annotations

import numpy as np

from tests.importer.builders import noise, safetensors, write

WIDE, NARROW, VOCABULARY, LAYERS = 128, 64, 96, 4
BASE = {
    "hidden_size": WIDE,
    "intermediate_size": 192,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": NARROW,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "_name_or_path": "somewhere",
}
EXPERTS = 3


def values(name, shape, dtype):
    """Bytes of numbers below 1, of both signs, that depend on the name alone."""
    count = int(np.prod(shape))
    raw = np.frombuffer(noise(name, 2 * count), "<i2").astype("<f4") / 32768
    if dtype == "BF16":
        return dtype, shape, (raw.view("<u4") >> 16).astype("<u2").tobytes()
    return dtype, shape, raw.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def _attention(prefix):
    yield f"{prefix}.self_attn.q_proj.weight", (2 * NARROW, WIDE)
    yield f"{prefix}.self_attn.k_proj.weight", (NARROW, WIDE)
    yield f"{prefix}.self_attn.v_proj.weight", (NARROW, WIDE)
    yield f"{prefix}.self_attn.o_proj.weight", (WIDE, 2 * NARROW)
    yield f"{prefix}.input_layernorm.weight", (WIDE,)
    yield f"{prefix}.post_attention_layernorm.weight", (WIDE,)


def _mlp(prefix, inner):
    yield f"{prefix}.gate_proj.weight", (inner, WIDE)
    yield f"{prefix}.up_proj.weight", (inner, WIDE)
    yield f"{prefix}.down_proj.weight", (WIDE, inner)


def _llama(prefix, _):
    yield from _mlp(f"{prefix}.mlp", 192)


def _mixtral(prefix, _):
    yield f"{prefix}.block_sparse_moe.gate.weight", (EXPERTS, WIDE)
    for expert in range(EXPERTS):
        place = f"{prefix}.block_sparse_moe.experts.{expert}"
        yield f"{place}.w1.weight", (192, WIDE)
        yield f"{place}.w2.weight", (WIDE, 192)
        yield f"{place}.w3.weight", (192, WIDE)


def _qwen3_moe(prefix, _):
    yield f"{prefix}.self_attn.q_norm.weight", (NARROW,)
    yield f"{prefix}.self_attn.k_norm.weight", (NARROW,)
    yield f"{prefix}.mlp.gate.weight", (EXPERTS, WIDE)
    for expert in range(EXPERTS):
        yield from _mlp(f"{prefix}.mlp.experts.{expert}", NARROW)


def _glm4_moe(prefix, layer):
    if layer == 0:
        yield from _mlp(f"{prefix}.mlp", 192)
        return
    yield f"{prefix}.mlp.gate.weight", (EXPERTS, WIDE)
    yield f"{prefix}.mlp.gate.e_score_correction_bias", (EXPERTS,)
    yield from _mlp(f"{prefix}.mlp.shared_experts", NARROW)
    for expert in range(EXPERTS):
        yield from _mlp(f"{prefix}.mlp.experts.{expert}", NARROW)


MODELS = {
    "llama": (_llama, {}),
    "granite": (
        _llama,
        {
            "logits_scaling": 1.0,
            "attention_multiplier": 1.0,
            "embedding_multiplier": 1.0,
            "residual_multiplier": 1.0,
            "attention_bias": False,
            "mlp_bias": False,
        },
    ),
    "mixtral": (_mixtral, {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        _qwen3_moe,
        {
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "moe_intermediate_size": NARROW,
            "norm_topk_prob": True,
        },
    ),
    "glm4_moe": (
        _glm4_moe,
        {
            "attention_bias": False,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": NARROW,
            "n_group": 1,
            "n_routed_experts": EXPERTS,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 2,
            "partial_rotary_factor": 0.5,
            "rope_scaling": None,
            "routed_scaling_factor": 1.0,
            "topk_group": 1,
            "use_qk_norm": False,
        },
    ),
}
"""`model_type` -> the tensors of a layer beside attention, and more of the configuration."""


def checkpoint(directory, family, dtype="BF16", **keys):
    """Write a model; norms and corrections are F32 whatever the others are."""
    layer, facts = MODELS[family]
    shapes = {
        "model.embed_tokens.weight": (VOCABULARY, WIDE),
        "model.norm.weight": (WIDE,),
        "lm_head.weight": (VOCABULARY, WIDE),
    }
    for number in range(LAYERS):
        prefix = f"model.layers.{number}"
        shapes |= dict(_attention(prefix)) | dict(layer(prefix, number))
    if family in {"llama", "olmo2"}:
        shapes["model.layers.0.self_attn.rotary_emb.inv_freq"] = (NARROW // 2,)
    if family == "glm4_moe":  # the layer of multi-token prediction
        shapes[f"model.layers.{LAYERS}.eh_proj.weight"] = (WIDE, WIDE)
    tensors = {
        name: values(name, shape, dtype if len(shape) > 1 else "F32")
        for name, shape in shapes.items()
    }
    config = {"model_type": family, "architectures": [family], **BASE, **facts, **keys}
    generation = {"eos_token_id": [2, 7], "do_sample": True}
    return write(
        directory,
        {
            "model.safetensors": safetensors(tensors),
            "config.json": config,
            "generation_config.json": generation,
        },
    )


CASES = {
    "plain": ((), {}),
    "int4": (("q",), {"quantize": True}),
    "int8": (("q",), {"quantize": True, "q_bits": 8}),
    "int3/32": (("q",), {"quantize": True, "q_bits": 3, "q_group_size": 32}),
    "int6/128": (("q",), {"quantize": True, "q_bits": 6, "q_group_size": 128}),
    "mxfp4": (("q",), {"quantize": True, "q_mode": "mxfp4"}),
    "nvfp4": (("q",), {"quantize": True, "q_mode": "nvfp4"}),
    "mxfp8": (("q",), {"quantize": True, "q_mode": "mxfp8"}),
    "mixed_2_6": (("recipe",), {"quantize": True, "quant_predicate": "mixed_2_6"}),
    "mixed_3_4": (("recipe",), {"quantize": True, "quant_predicate": "mixed_3_4"}),
    "mixed_3_6": (("recipe",), {"quantize": True, "quant_predicate": "mixed_3_6"}),
    "mixed_4_6": (("recipe",), {"quantize": True, "quant_predicate": "mixed_4_6"}),
}
"""What is asked for -> the option of an export that it is, and what `mlx_lm.convert` takes."""
SOURCES = {"": {}, "-f32-cast": {"dtype": "F32", "torch_dtype": "bfloat16"}}
"""A suffix of the case's name -> how its checkpoint differs."""
