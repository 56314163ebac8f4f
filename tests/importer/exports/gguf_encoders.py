"""Small checkpoints of encoders, and of models whose scalars or experts lie otherwise."""

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
    field,
    pieces,
    vocabulary_of,
)
from tests.importer.exports.mlx_checkpoints import values

_T5 = {"d_model": WIDE, "d_ff": INNER, "d_kv": NARROW, "num_heads": 2, "num_layers": 2}
_T5 |= {"decoder_start_token_id": 0, "relative_attention_num_buckets": 8}
_T5 |= {"layer_norm_epsilon": 1e-06}
_MOE = {"moe_num_experts": EXPERTS, "moe_k": 2, "moe_intermediate_size": NARROW}
_MOE |= {"moe_num_shared_experts": 1, "moe_layer_start_index": 1, "moe_layer_interval": 1}
MODELS = {
    # name: class, model_type, more of the configuration, vocabulary
    "apertus": ("ApertusForCausalLM", "apertus", {"rope_parameters": LLAMA3}, "llama3"),
    "ernie4_5-moe": ("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", _MOE, "spm"),
    "roberta": ("RobertaModel", "roberta", {"pad_token_id": 1, "type_vocab_size": 1}, "qwen2"),
    "modern-bert": (
        "ModernBertModel",
        "modernbert",
        {"global_attn_every_n_layers": 2, "local_attention": 16, "norm_eps": 1e-05},
        "qwen2",
    ),
    "t5": ("T5ForConditionalGeneration", "t5", {**_T5, "num_decoder_layers": 1}, "unigram"),
    "t5-relu": ("T5ForConditionalGeneration", "t5", _T5, "unigram"),
    "t5-encoder": ("T5EncoderModel", "t5", _T5, "unigram"),
}
TYPES = ("f32", "q8_0")
_SQUARE = (WIDE, WIDE)


def checkpoint(directory, name):
    """Write a model of one file; give its directory."""
    kind, family, more, vocabulary = MODELS[name]
    config = {**BASE, "num_hidden_layers": 2, "architectures": [kind], "model_type": family}
    if name.startswith("t5"):
        config = {key: config[key] for key in ("architectures", "model_type", "vocab_size")}
    if family in {"roberta", "modernbert"}:
        del config["rms_norm_eps"], config["num_key_value_heads"]
    config |= more
    tensors = {one: values(f"{name} {one}", shape, "BF16") for one, shape in _OF[name](config)}
    files = {"config.json": json.dumps(config).encode(), **_vocabulary(vocabulary)}
    write(directory, {**files, "model.safetensors": safetensors(tensors)})
    return directory


def _vocabulary(kind):
    if kind != "unigram":
        return vocabulary_of(kind)
    normalizer = field(3, field(1, b"identity") + b"\x18\x00\x20\x01")
    told = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return {
        "spiece.model": pieces(trainer=field(2, b"\x18\x01\x98\x02\x01")) + normalizer,
        "tokenizer_config.json": json.dumps(told).encode(),
        "added_tokens.json": b'{"<extra>": 300}',
    }


def _decoder(name, config):
    yield "model.embed_tokens.weight", (TOKENS, WIDE)
    yield "model.norm.weight", (WIDE,)
    yield "lm_head.weight", (TOKENS, WIDE)
    for number in range(config["num_hidden_layers"]):
        place = f"model.layers.{number}"
        for one, rows in (("q", WIDE), ("k", NARROW), ("v", NARROW)):
            yield f"{place}.self_attn.{one}_proj.weight", (rows, WIDE)
        yield f"{place}.self_attn.o_proj.weight", _SQUARE
        yield from _apertus(place) if name == "apertus" else _ernie(place, number)


def _apertus(place):
    yield f"{place}.attention_layernorm.weight", (WIDE,)
    yield f"{place}.feedforward_layernorm.weight", (WIDE,)
    for one in ("q", "k"):
        yield f"{place}.self_attn.{one}_norm.weight", (NARROW,)
    for one, shape in (("alpha_n", (1,)), ("alpha_p", (1,)), ("beta", ()), ("eps", ())):
        yield f"{place}.mlp.act_fn.{one}", shape
    yield f"{place}.mlp.up_proj.weight", (INNER, WIDE)
    yield f"{place}.mlp.down_proj.weight", (WIDE, INNER)


def _ernie(place, number):
    yield f"{place}.input_layernorm.weight", (WIDE,)
    yield f"{place}.post_attention_layernorm.weight", (WIDE,)
    if not number:
        yield from _gated(f"{place}.mlp", INNER)
        return
    yield f"{place}.mlp.gate.weight", (EXPERTS, WIDE)
    yield f"{place}.mlp.moe_statics.e_score_correction_bias", (1, EXPERTS)
    yield from _gated(f"{place}.mlp.shared_experts", NARROW)
    for expert in range(EXPERTS):
        yield from _gated(f"{place}.mlp.experts.{expert}", NARROW)


def _gated(place, inner):
    for one in ("gate", "up", "down"):
        yield f"{place}.{one}_proj.weight", (WIDE, inner) if one == "down" else (inner, WIDE)


def _roberta(config):
    yield "embeddings.word_embeddings.weight", (TOKENS, WIDE)
    yield (
        "embeddings.position_embeddings.weight",
        (config["max_position_embeddings"], WIDE),
    )
    yield "embeddings.token_type_embeddings.weight", (1, WIDE)
    yield from _both("embeddings.LayerNorm", WIDE)
    yield from _both("pooler.dense", WIDE, WIDE)
    for number in range(config["num_hidden_layers"]):
        place = f"encoder.layer.{number}"
        for one in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _both(f"{place}.attention.{one}", WIDE, WIDE)
        yield from _both(f"{place}.attention.output.LayerNorm", WIDE)
        yield from _both(f"{place}.intermediate.dense", INNER, WIDE)
        yield from _both(f"{place}.output.dense", WIDE, INNER)
        yield from _both(f"{place}.output.LayerNorm", WIDE)


def _both(name, *shape):
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def _modern_bert(config):
    yield "embeddings.tok_embeddings.weight", (TOKENS, WIDE)
    yield "embeddings.norm.weight", (WIDE,)
    yield "final_norm.weight", (WIDE,)
    for number in range(config["num_hidden_layers"]):
        place = f"layers.{number}"
        if number:
            yield f"{place}.attn_norm.weight", (WIDE,)
        yield f"{place}.attn.Wqkv.weight", (3 * WIDE, WIDE)
        yield f"{place}.attn.Wo.weight", _SQUARE
        yield f"{place}.mlp_norm.weight", (WIDE,)
        yield f"{place}.mlp.Wi.weight", (2 * INNER, WIDE)
        yield f"{place}.mlp.Wo.weight", (WIDE, INNER)


def _t5(name, config):
    yield "shared.weight", (TOKENS, WIDE)
    yield "encoder.embed_tokens.weight", (TOKENS, WIDE)
    stacks = {"encoder": (2, ("SelfAttention",))}
    if name != "t5-encoder":
        yield "lm_head.weight", (TOKENS, WIDE)
        count = config.get("num_decoder_layers", 2)
        stacks["decoder"] = (count, ("SelfAttention", "EncDecAttention"))
    for stack, (count, kinds) in stacks.items():
        yield f"{stack}.final_layer_norm.weight", (WIDE,)
        first = f"{stack}.block.0.layer.0.SelfAttention"
        yield f"{first}.relative_attention_bias.weight", (8, 2)
        for number in range(count):
            place = f"{stack}.block.{number}.layer"
            for layer, kind in enumerate(kinds):
                yield f"{place}.{layer}.layer_norm.weight", (WIDE,)
                for one in ("q", "k", "v"):
                    yield f"{place}.{layer}.{kind}.{one}.weight", (2 * NARROW, WIDE)
                yield f"{place}.{layer}.{kind}.o.weight", (WIDE, 2 * NARROW)
            last = f"{place}.{len(kinds)}"
            yield f"{last}.layer_norm.weight", (WIDE,)
            for one in ("wi_0", "wi_1") if name == "t5" else ("wi",):
                yield f"{last}.DenseReluDense.{one}.weight", (INNER, WIDE)
            yield f"{last}.DenseReluDense.wo.weight", (WIDE, INNER)


_OF = {
    "apertus": lambda config: _decoder("apertus", config),
    "ernie4_5-moe": lambda config: _decoder("ernie4_5-moe", config),
    "roberta": _roberta,
    "modern-bert": _modern_bert,
    "t5": lambda config: _t5("t5", config),
    "t5-relu": lambda config: _t5("t5-relu", config),
    "t5-encoder": lambda config: _t5("t5-encoder", config),
}
