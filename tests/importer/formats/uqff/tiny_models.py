"""Tiny models with random weights that mistral.rs loads, and quantizes to any of its types."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

ARCHITECTURES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3_moe": "Qwen3Moe"}
"""What mistral.rs calls a `model_type`."""
CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
VOCABULARY = 64
EXPERTS = 2


class Sizes(NamedTuple):
    """How large a model is: its width, its heads, those of keys, the width within."""

    hidden: int
    heads: int
    kv_heads: int
    inter: int


def write_model(directory, kind, sizes):
    """Write one with a single layer: weights, configuration, a tokenizer of characters."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = _weights(kind, sizes)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    config = _config(kind, sizes)
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    documents = {
        "config.json": config,
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "LlamaTokenizer",
            "bos_token": "!",
            "eos_token": "!",
            "chat_template": template,
        },
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document))
    return directory


def _config(kind, sizes):
    hidden, heads, kv_heads, inter = sizes
    config = {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": inter,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "vocab_size": VOCABULARY,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "max_window_layers": 1,
        "use_sliding_window": False,
        "sliding_window": 128,
    }
    if kind == "qwen3_moe":
        config |= {
            "head_dim": hidden // heads,
            "moe_intermediate_size": inter,
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "decoder_sparse_step": 1,
            "norm_topk_prob": True,
            "mlp_only_layers": [],
            "attention_bias": False,
        }
    return config


def _weights(kind, sizes):
    hidden, heads, kv_heads, inter = sizes
    rng = np.random.default_rng(7)
    width = hidden // heads
    shapes = {
        "model.embed_tokens.weight": (VOCABULARY, hidden),
        "lm_head.weight": (VOCABULARY, hidden),
    }
    norms = {"model.norm.weight": hidden}
    layer = "model.layers.0"
    for name, out in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        shapes[f"{layer}.self_attn.{name}_proj.weight"] = (out * width, hidden)
        if kind == "qwen2":
            shapes[f"{layer}.self_attn.{name}_proj.bias"] = (out * width,)
    shapes[f"{layer}.self_attn.o_proj.weight"] = (hidden, heads * width)
    norms |= dict.fromkeys(
        (f"{layer}.input_layernorm.weight", f"{layer}.post_attention_layernorm.weight"), hidden
    )
    mlps = [f"{layer}.mlp"]
    if kind == "qwen3_moe":
        mlps = [f"{layer}.mlp.experts.{number}" for number in range(EXPERTS)]
        shapes[f"{layer}.mlp.gate.weight"] = (EXPERTS, hidden)
        norms |= {f"{layer}.self_attn.{name}_norm.weight": width for name in "qk"}
    for mlp in mlps:
        shapes[f"{mlp}.gate_proj.weight"] = shapes[f"{mlp}.up_proj.weight"] = (inter, hidden)
        shapes[f"{mlp}.down_proj.weight"] = (hidden, inter)
    made = {
        name: (rng.standard_normal(shape) * 0.05).astype(np.float32)
        for name, shape in shapes.items()
    }
    for name, size in norms.items():
        made[name] = (1 + rng.standard_normal(size) * 0.01).astype(np.float32)
    return made


def _tokenizer():
    special = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 0, "content": "!", "special": True, **special}],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "!",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {chr(33 + number): number for number in range(VOCABULARY)},
            "merges": [],
        },
    }
