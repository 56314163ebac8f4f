"""Small checkpoints of recent models of text, and of those that make vectors of texts."""

from __future__ import annotations

import json
import math

from tests.importer.builders import noise, safetensors, write
from tests.importer.exports.gguf_checkpoints import (
    BASE,
    DEEPSEEK,
    EXPERTS,
    INNER,
    NARROW,
    TOKENS,
    WIDE,
    byte_level,
    field,
    pieces,
    vocabulary_of,
)
from tests.importer.exports.mlx_checkpoints import values

_YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}
_LITE = DEEPSEEK | {"q_lora_rank": 32, "num_nextn_predict_layers": 1, "n_group": 1}
_LFM2 = {
    "layer_types": ["conv", "full_attention"],
    "num_dense_layers": 1,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": NARROW,
    "norm_eps": 1e-05,
}
_INSIDE = {**BASE, "model_type": "mistral", "head_dim": NARROW, "rope_theta": 1000000.0}
_MINISTRAL = {**BASE, "model_type": "ministral3", "head_dim": NARROW, "rope_parameters": _YARN}
_FLOAT8 = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}
_GEMMA = {"head_dim": NARROW, "sliding_window": 16, "use_bidirectional_attention": True}
_DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": "models.Dense"}
_DISTIL = {"dim": WIDE, "hidden_dim": INNER, "n_heads": 2, "n_layers": 2}
_XLM = {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-05}
MODELS = {
    # name: class, model_type, more of the configuration, vocabulary, how vectors are made
    "lfm2-moe": ("Lfm2MoeForCausalLM", "lfm2_moe", _LFM2, "llama3", None),
    "glm4-lite": ("Glm4MoeLiteForCausalLM", "glm4_moe_lite", _LITE, "glm", None),
    "ministral3": (
        "Ministral3ForCausalLM",
        "ministral3",
        {"head_dim": NARROW, "rope_parameters": _YARN},
        "llama3",
        None,
    ),
    "mistral3": (
        "Mistral3ForConditionalGeneration",
        "mistral3",
        {"text_config": _INSIDE},
        "llama3",
        None,
    ),
    "ministral3-float8": (
        "Mistral3ForConditionalGeneration",
        "mistral3",
        {"text_config": _MINISTRAL, "quantization_config": _FLOAT8},
        "llama3",
        None,
    ),
    "qwen3-sentence": ("Qwen3ForCausalLM", "qwen3", {"head_dim": NARROW}, "qwen2", "lasttoken"),
    "qwen3-inside": ("Qwen3Model", "qwen3", {"head_dim": NARROW}, "qwen2", "lasttoken"),
    "embedding-gemma": ("Gemma3TextModel", "gemma3_text", _GEMMA, "spm", "mean_tokens"),
    "distilbert": ("DistilBertForMaskedLM", "distilbert", _DISTIL, "words", None),
    "xlm-roberta": ("XLMRobertaModel", "xlm-roberta", _XLM, "fairseq", "cls_token"),
}
TYPES = ("f32", "q8_0")
_ENCODERS = frozenset({"distilbert", "xlm-roberta"})
_SQUARE = (WIDE, WIDE)
_USUAL = ("input_layernorm", "post_attention_layernorm")
_GEMMAS = (*_USUAL, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def checkpoint(directory, name):
    """Write a model of one file; give its directory."""
    kind, family, more, vocabulary, pooling = MODELS[name]
    config = {**BASE, "architectures": [kind], "model_type": family, **more}
    if name in _ENCODERS:
        del config["rms_norm_eps"], config["num_key_value_heads"]
    tensors = {one: values(f"{name} {one}", shape, "BF16") for one, shape in _tensors(name)}
    if "quantization_config" in config:
        tensors = dict(_in_eight_bits(tensors))
    files = {"config.json": json.dumps(config).encode(), **_vocabulary(vocabulary)}
    if pooling:
        module = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "models.Pooling"}
        files["modules.json"] = json.dumps([module]).encode()
        told = {"word_embedding_dimension": WIDE, f"pooling_mode_{pooling}": True}
        files["1_Pooling/config.json"] = json.dumps(told).encode()
    if name == "embedding-gemma":
        inside = {"linear.weight": ("F32", (2 * WIDE, WIDE))}
        files["modules.json"] = json.dumps([module, {**module, **_DENSE}]).encode()
        told = {"in_features": WIDE, "out_features": 2 * WIDE}
        files["2_Dense/config.json"] = json.dumps(told).encode()
        files["2_Dense/model.safetensors"] = safetensors(inside)
    write(directory, {**files, "model.safetensors": safetensors(tensors)})
    return directory


def _in_eight_bits(tensors):
    """Yield matrices of layers as FP8, with a factor of theirs and one of activations."""
    for name, (dtype, shape, data) in tensors.items():
        if not name.endswith("_proj.weight"):
            yield name, (dtype, shape, data)
            continue
        codes = noise(name, math.prod(shape))
        finite = codes.replace(b"\x7f", b"\0").replace(b"\xff", b"\0")
        yield name, ("F8_E4M3", shape, finite)
        yield f"{name}_scale_inv", ("BF16", (), b"\x11\x3c")
        yield f"{name.removesuffix('weight')}activation_scale", ("BF16", (), b"\x11\x3e")


def _vocabulary(kind):
    if kind == "fairseq":
        normalizer = field(3, field(1, b"identity") + b"\x18\x01\x20\x00")
        trainer = field(2, b"\x18\x01\x98\x02\x01")  # by likelihood
        told = {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "cls_token": "<s>",
            "sep_token": "</s>",
        }
        return {
            "sentencepiece.bpe.model": pieces(trainer=trainer) + normalizer,
            "tokenizer_config.json": json.dumps(told).encode(),
        }
    if kind == "glm":
        tokenizer = byte_level("qwen2")
        first = tokenizer["added_tokens"][0]
        for content in ("[gMASK]", "<|user|>", "<|observation|>"):
            number = tokenizer["added_tokens"][-1]["id"] + 1
            tokenizer["added_tokens"].append({**first, "id": number, "content": content})
        files = vocabulary_of("qwen2")
        return {**files, "tokenizer.json": json.dumps(tokenizer).encode()}
    if kind == "words":
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "é"]
        told = {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": True}
        return {
            "vocab.txt": "\n".join(words).encode(),
            "tokenizer_config.json": json.dumps(told).encode(),
        }
    return vocabulary_of(kind)


def _tensors(name):
    """Yield names and shapes."""
    if name in _ENCODERS:
        yield from _distilbert() if name == "distilbert" else _xlm_roberta()
        return
    before = dict.fromkeys(("embedding-gemma", "qwen3-inside"), "")
    before |= dict.fromkeys(("mistral3", "ministral3-float8"), "language_model.model.")
    prefix = before.get(name, "model.")
    yield f"{prefix}embed_tokens.weight", (TOKENS, WIDE)
    yield f"{prefix}{'embedding_norm' if name == 'lfm2-moe' else 'norm'}.weight", (WIDE,)
    if name in {"mistral3", "ministral3-float8"}:
        yield "language_model.lm_head.weight", (TOKENS, WIDE)
        yield "vision_tower.patch_conv.weight", (WIDE, 3, 2, 2)
        yield "multi_modal_projector.linear_1.weight", _SQUARE
    for number in range(3 if name == "glm4-lite" else 2):
        place = f"{prefix}layers.{number}"
        if name == "lfm2-moe":
            yield from _lfm2(place, number)
        elif name == "glm4-lite":
            yield from _lite(place, number)
        else:
            yield from _layer(place, name)


def _layer(place, name):
    for one, rows in (("q", WIDE), ("k", NARROW), ("v", NARROW)):
        yield f"{place}.self_attn.{one}_proj.weight", (rows, WIDE)
    yield f"{place}.self_attn.o_proj.weight", _SQUARE
    if name.startswith(("qwen3", "embedding")):
        for one in ("q", "k"):
            yield f"{place}.self_attn.{one}_norm.weight", (NARROW,)
    for one in _GEMMAS if name == "embedding-gemma" else _USUAL:
        yield f"{place}.{one}.weight", (WIDE,)
    yield from _gated(f"{place}.mlp", ("gate_proj", "up_proj", "down_proj"), INNER)


def _gated(place, words, inner):
    gate, up, down = words
    yield f"{place}.{gate}.weight", (inner, WIDE)
    yield f"{place}.{up}.weight", (inner, WIDE)
    yield f"{place}.{down}.weight", (WIDE, inner)


def _lfm2(place, number):
    words = ("w1", "w3", "w2")
    yield f"{place}.operator_norm.weight", (WIDE,)
    yield f"{place}.ffn_norm.weight", (WIDE,)
    if not number:
        yield f"{place}.conv.conv.weight", (WIDE, 1, 3)
        yield f"{place}.conv.in_proj.weight", (3 * WIDE, WIDE)
        yield f"{place}.conv.out_proj.weight", _SQUARE
        yield from _gated(f"{place}.feed_forward", words, INNER)
        return
    for one, rows in (("q_proj", WIDE), ("k_proj", NARROW), ("v_proj", NARROW)):
        yield f"{place}.self_attn.{one}.weight", (rows, WIDE)
    yield f"{place}.self_attn.out_proj.weight", _SQUARE
    for one in ("q", "k"):
        yield f"{place}.self_attn.{one}_layernorm.weight", (NARROW,)
    yield f"{place}.feed_forward.gate.weight", (EXPERTS, WIDE)
    yield f"{place}.feed_forward.expert_bias", (EXPERTS,)
    for expert in range(EXPERTS):
        yield from _gated(f"{place}.feed_forward.experts.{expert}", words, NARROW)


def _lite(place, number):
    """DeepSeek's attention; the last block predicts a further token."""
    words = ("gate_proj", "up_proj", "down_proj")
    for one in _USUAL:
        yield f"{place}.{one}.weight", (WIDE,)
    yield f"{place}.self_attn.q_a_proj.weight", (32, WIDE)
    yield f"{place}.self_attn.q_a_layernorm.weight", (32,)
    yield f"{place}.self_attn.q_b_proj.weight", (64, 32)
    yield f"{place}.self_attn.kv_a_proj_with_mqa.weight", (48, WIDE)
    yield f"{place}.self_attn.kv_a_layernorm.weight", (32,)
    yield f"{place}.self_attn.kv_b_proj.weight", (96, 32)
    yield f"{place}.self_attn.o_proj.weight", _SQUARE
    if not number:
        yield from _gated(f"{place}.mlp", words, INNER)
        return
    yield f"{place}.mlp.gate.weight", (EXPERTS, WIDE)
    yield f"{place}.mlp.gate.e_score_correction_bias", (EXPERTS,)
    yield from _gated(f"{place}.mlp.shared_experts", words, NARROW)
    for expert in range(EXPERTS):
        yield from _gated(f"{place}.mlp.experts.{expert}", words, NARROW)
    if number == 2:  # behind those that the configuration counts
        yield f"{place}.eh_proj.weight", (WIDE, 2 * WIDE)
        for one in ("enorm", "hnorm", "shared_head.norm"):
            yield f"{place}.{one}.weight", (WIDE,)


def _distilbert():
    yield "distilbert.embeddings.word_embeddings.weight", (TOKENS, WIDE)
    yield "distilbert.embeddings.position_embeddings.weight", (64, WIDE)
    yield from _both("distilbert.embeddings.LayerNorm", WIDE)
    yield from _both("vocab_transform", WIDE, WIDE)
    yield from _both("vocab_layer_norm", WIDE)
    for number in range(2):
        place = f"distilbert.transformer.layer.{number}"
        for one in ("q_lin", "k_lin", "v_lin", "out_lin"):
            yield from _both(f"{place}.attention.{one}", WIDE, WIDE)
        yield from _both(f"{place}.ffn.lin1", INNER, WIDE)
        yield from _both(f"{place}.ffn.lin2", WIDE, INNER)
        for one in ("sa_layer_norm", "output_layer_norm"):
            yield from _both(f"{place}.{one}", WIDE)


def _xlm_roberta():
    yield "embeddings.word_embeddings.weight", (TOKENS, WIDE)
    yield "embeddings.position_embeddings.weight", (64, WIDE)
    yield "embeddings.token_type_embeddings.weight", (1, WIDE)
    yield from _both("embeddings.LayerNorm", WIDE)
    yield from _both("pooler.dense", WIDE, WIDE)
    for number in range(2):
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
