"""Small checkpoints of architectures whose tensors llama.cpp wants in another form."""

from __future__ import annotations

import json

from tests.importer.builders import safetensors, write
from tests.importer.exports.gguf_checkpoints import (
    BASE,
    EXPERTS,
    INNER,
    LLAMA3,
    NARROW,
    TOKENS,
    WIDE,
    vocabulary_of,
)
from tests.importer.exports.mlx_checkpoints import values

_OLD = {"n_embd": WIDE, "n_layer": 1, "n_head": 2, "n_positions": 64}
MODELS = {
    # name: class, model_type, more of the configuration, vocabulary
    "gpt2": ("GPT2LMHeadModel", "gpt2", {**_OLD, "n_ctx": 64}, "qwen2"),
    "falcon": ("FalconForCausalLM", "falcon", {"num_kv_heads": 1}, "qwen2"),
    "falcon-groups": (
        "FalconForCausalLM",
        "falcon",
        {"num_kv_heads": 2, "num_attention_heads": 4, "new_decoder_architecture": True},
        "qwen2",
    ),
    "gptneox": ("GPTNeoXForCausalLM", "gpt_neox", {"layer_norm_eps": 1e-05}, "qwen2"),
    "bloom": ("BloomForCausalLM", "bloom", {"n_layer": 1, "n_head": 2}, "qwen2"),
    "granitemoe": (
        "GraniteMoeSharedForCausalLM",
        "granitemoeshared",
        {
            "num_local_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": NARROW,
        },
        "qwen2",
    ),
    "llama4": (
        "Llama4ForCausalLM",
        "llama4_text",
        {
            "head_dim": NARROW,
            "intermediate_size": NARROW,
            "intermediate_size_mlp": INNER,
            "num_local_experts": EXPERTS,
            "interleave_moe_layer_step": 1,
        },
        "llama3",
    ),
    "lfm2": (
        "Lfm2ForCausalLM",
        "lfm2",
        {
            "layer_types": ["conv", "full_attention"],
            "num_hidden_layers": 2,
            "block_multiple_of": 32,
        },
        "llama3",
    ),
    "exaone4": (
        "Exaone4ForCausalLM",
        "exaone4",
        {"head_dim": NARROW, "sliding_window": 16, "rope_parameters": LLAMA3},
        "qwen2",
    ),
    "olmo": ("OlmoForCausalLM", "olmo", {"clip_qkv": 4.0}, "qwen2"),
    "nemotron": ("NemotronForCausalLM", "nemotron", {"head_dim": NARROW}, "spm"),
}
TYPES = ("f32", "q8_0")
MIXTURES = {"gptneox": ("Q4_0",), "falcon": ("Q5_1",), "llama4": ("Q4_K_M",), "gpt2": ("Q6_K",)}
_SQUARE = (WIDE, WIDE)


def checkpoint(directory, name):
    """Write a model of one file; give its directory."""
    kind, family, more, vocabulary = MODELS[name]
    told = {"num_hidden_layers": 1, "layer_norm_epsilon": 1e-05, **more}
    config = {**BASE, "architectures": [kind], "model_type": family, **told}
    tensors = {
        one: values(f"{name} {one}", shape, "BF16") for one, shape in tensors_of(name, config)
    }
    files = {"config.json": json.dumps(config).encode(), **vocabulary_of(vocabulary)}
    write(directory, {**files, "model.safetensors": safetensors(tensors)})
    return directory


def tensors_of(name, config):
    """Yield names and shapes."""
    if name in _OLDER:
        yield from _OLDER[name](config)
        return
    yield "model.embed_tokens.weight", (TOKENS, WIDE)
    if name != "olmo":
        norm = "embedding_norm" if name == "lfm2" else "norm"
        yield f"model.{norm}.weight", (WIDE,)
        yield "lm_head.weight", (TOKENS, WIDE)
    for number in range(config["num_hidden_layers"]):
        place = f"model.layers.{number}"
        if name == "lfm2":
            yield from _lfm2(place, number)
            continue
        for one, rows in (("q", WIDE), ("k", NARROW), ("v", NARROW)):
            yield f"{place}.self_attn.{one}_proj.weight", (rows, WIDE)
        yield f"{place}.self_attn.o_proj.weight", _SQUARE
        yield from ((f"{place}.{one}.weight", (WIDE,)) for one in _NORMS.get(name, _USUAL))
        if name in {"granitemoe", "llama4"}:
            yield from _EXPERTS[name](place)
        else:
            words = ("up", "down") if name == "nemotron" else ("gate", "up", "down")
            for one in words:
                shape = (WIDE, INNER) if one == "down" else (INNER, WIDE)
                yield f"{place}.mlp.{one}_proj.weight", shape


_USUAL = ("input_layernorm", "post_attention_layernorm")
_NORMS = {"exaone4": ("post_attention_layernorm", "post_feedforward_layernorm"), "olmo": ()}


def _granite(place):
    moe, shared = f"{place}.block_sparse_moe", f"{place}.shared_mlp"
    yield f"{moe}.router.layer.weight", (EXPERTS, WIDE)
    yield f"{moe}.input_linear.weight", (EXPERTS, 2 * INNER, WIDE)
    yield f"{moe}.output_linear.weight", (EXPERTS, WIDE, INNER)
    yield f"{shared}.input_linear.weight", (2 * NARROW, WIDE)
    yield f"{shared}.output_linear.weight", (WIDE, NARROW)


def _llama4(place):
    moe = f"{place}.feed_forward"
    yield f"{moe}.router.weight", (EXPERTS, WIDE)
    yield f"{moe}.experts.gate_up_proj", (EXPERTS, WIDE, 2 * NARROW)
    yield f"{moe}.experts.down_proj", (EXPERTS, NARROW, WIDE)
    for one, shape in (
        ("gate", (NARROW, WIDE)),
        ("up", (NARROW, WIDE)),
        ("down", (WIDE, NARROW)),
    ):
        yield f"{moe}.shared_expert.{one}_proj.weight", shape


_EXPERTS = {"granitemoe": _granite, "llama4": _llama4}


def _lfm2(place, number):
    yield f"{place}.operator_norm.weight", (WIDE,)
    yield f"{place}.ffn_norm.weight", (WIDE,)
    if number:
        for one, rows in (("q", WIDE), ("k", NARROW), ("v", NARROW)):
            yield f"{place}.self_attn.{one}_proj.weight", (rows, WIDE)
        yield f"{place}.self_attn.out_proj.weight", _SQUARE
        yield f"{place}.self_attn.q_layernorm.weight", (NARROW,)
        yield f"{place}.self_attn.k_layernorm.weight", (NARROW,)
    else:
        yield f"{place}.conv.conv.weight", (WIDE, 1, 3)
        yield f"{place}.conv.in_proj.weight", (3 * WIDE, WIDE)
        yield f"{place}.conv.out_proj.weight", _SQUARE
    for one, shape in (("w1", (64, WIDE)), ("w3", (64, WIDE)), ("w2", (WIDE, 64))):
        yield f"{place}.feed_forward.{one}.weight", shape


def _gpt2(config):
    del config
    yield "wte.weight", (TOKENS, WIDE)  # published ones have no `transformer.`
    yield "wpe.weight", (64, WIDE)
    for norm in ("ln_f", "h.0.ln_1", "h.0.ln_2"):
        yield f"{norm}.weight", (WIDE,)
        yield f"{norm}.bias", (WIDE,)
    widths = {
        "attn.c_attn": (1, 3),
        "attn.c_proj": (1, 1),
        "mlp.c_fc": (1, 4),
        "mlp.c_proj": (4, 1),
    }
    for one, (inputs, outputs) in widths.items():
        yield f"h.0.{one}.weight", (inputs * WIDE, outputs * WIDE)
        yield f"h.0.{one}.bias", (outputs * WIDE,)


def _joined(layers, embeddings, last, names, config):
    heads, kv = config["num_attention_heads"], config.get("num_kv_heads")
    size = WIDE // heads
    yield f"{embeddings}.weight", (TOKENS, WIDE)
    norms = [last, *(f"{layers}.0.{one}" for one in names)]
    if "word_embeddings" in embeddings and kv is None:
        norms.append("transformer.word_embeddings_layernorm")
    for norm in norms:
        yield f"{norm}.weight", (WIDE,)
        yield f"{norm}.bias", (WIDE,)
    attention = "attention" if layers.startswith("gpt_neox") else "self_attention"
    rows = 3 * WIDE if kv is None else (heads + 2 * kv) * size
    shapes = {
        f"{attention}.query_key_value": (rows, WIDE),
        f"{attention}.dense": _SQUARE,
        "mlp.dense_h_to_4h": (4 * WIDE, WIDE),
        "mlp.dense_4h_to_h": (WIDE, 4 * WIDE),
    }
    for one, shape in shapes.items():
        yield f"{layers}.0.{one}.weight", shape
        if kv is None:
            yield f"{layers}.0.{one}.bias", shape[:1]


_OLDER = {
    "gpt2": _gpt2,
    "falcon": lambda config: _joined(
        "transformer.h", "transformer.word_embeddings", "transformer.ln_f", _USUAL[:1], config
    ),
    "falcon-groups": lambda config: _joined(
        "transformer.h",
        "transformer.word_embeddings",
        "transformer.ln_f",
        ("ln_attn", "ln_mlp"),
        config,
    ),
    "bloom": lambda config: _joined(
        "transformer.h", "transformer.word_embeddings", "transformer.ln_f", _USUAL, config
    ),
    "gptneox": lambda config: _joined(
        "gpt_neox.layers", "gpt_neox.embed_in", "gpt_neox.final_layer_norm", _USUAL, config
    ),
}
