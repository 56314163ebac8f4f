"""Small checkpoints of architectures that llama.cpp knows, with vocabularies of every kind."""

from __future__ import annotations

import json
import math
import struct

from importer.exports.gguf.encoding import _LETTERS
from tests.importer.builders import noise, safetensors, write
from tests.importer.exports.mlx_checkpoints import values

WIDE, NARROW, INNER, TOKENS, LAYERS, EXPERTS = 64, 32, 96, 320, 2, 3
BASE = {
    "hidden_size": WIDE,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": TOKENS,
    "rms_norm_eps": 1e-05,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LONGROPE = {"type": "longrope", "long_factor": [1.5] * 16, "short_factor": [1.0] * 16}
DEEPSEEK = {
    "num_key_value_heads": 2,
    "kv_lora_rank": 32,
    "q_lora_rank": None,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 32,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": NARROW,
    "first_k_dense_replace": 1,
}
MODELS = {
    # name: class, model_type, more of the configuration, vocabulary
    "llama": ("LlamaForCausalLM", "llama", {}, "spm"),
    "llama3": (
        "LlamaForCausalLM",
        "llama",
        {"rope_theta": 500000.0, "rope_scaling": LLAMA3, "tie_word_embeddings": True},
        "llama3",
    ),
    "mixtral": (
        "MixtralForCausalLM",
        "mixtral",
        {"num_local_experts": EXPERTS, "num_experts_per_tok": 2},
        "spm",
    ),
    "qwen2moe": (
        "Qwen2MoeForCausalLM",
        "qwen2_moe",
        {
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": NARROW,
            "shared_expert_intermediate_size": WIDE,
        },
        "qwen2",
    ),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", {"head_dim": NARROW}, "spm"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text", {"head_dim": NARROW}, "spm"),
    "phi3": (
        "Phi3ForCausalLM",
        "phi3",
        {"rope_scaling": LONGROPE, "original_max_position_embeddings": 32, "pad_token_id": 0},
        "spm",
    ),
    "gpt-oss": (
        "GptOssForCausalLM",
        "gpt_oss",
        {"head_dim": NARROW, "num_local_experts": EXPERTS, "num_experts_per_tok": 2},
        "llama3",
    ),
    "gpt-oss-packed": (
        "GptOssForCausalLM",
        "gpt_oss",
        {
            "head_dim": NARROW,
            "num_local_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "quantization_config": {"quant_method": "mxfp4"},
        },
        "llama3",
    ),
    "deepseek2": ("DeepseekV2ForCausalLM", "deepseek_v2", DEEPSEEK, "llama3"),
}
TYPES = ("f32", "f16", "bf16", "q8_0")
MIXTURES = {
    # What llama-quantize made of the BF16 file; most rows here are too short for K types.
    "llama": ("Q4_0", "Q5_1", "Q3_K_M"),
    "qwen2moe": ("Q4_K_M", "MXFP4_MOE"),
    "gemma3": ("IQ4_NL", "Q2_K"),
}


def checkpoint(directory, name, shards=1, dtype="BF16"):
    """Write a model; give its directory."""
    kind, family, more, vocabulary = MODELS[name]
    config = BASE | {"architectures": [kind], "model_type": family} | more
    files = {"config.json": json.dumps(config).encode(), **vocabulary_of(vocabulary)}
    tensors = {}
    for one, shape in tensors_of(name, config):
        if one.endswith(("_blocks", "_scales")):
            data = noise(one, math.prod(shape))
            tensors[one] = ("U8", shape, data if one.endswith("_blocks") else scales(data))
        else:
            tensors[one] = values(f"{name} {one}", shape, dtype)
    if shards == 1:
        files["model.safetensors"] = safetensors(tensors)
    else:
        names = list(tensors)
        cut = len(names) // 2
        index = {}
        for number, part in enumerate((names[:cut], names[cut:]), 1):
            path = f"model-{number:05d}-of-00002.safetensors"
            files[path] = safetensors({one: tensors[one] for one in part})
            index |= dict.fromkeys(part, path)
        told = json.dumps({"metadata": {}, "weight_map": index}).encode()
        files["model.safetensors.index.json"] = told
    write(directory, files)
    return directory


def scales(data):
    """Make exponents near 1 of bytes."""
    return bytes(120 + byte % 16 for byte in data)


def tensors_of(name, config):
    """Yield names and shapes in the order in which a model declares them."""
    yield "model.embed_tokens.weight", (TOKENS, WIDE)
    for number in range(LAYERS):
        prefix = f"model.layers.{number}"
        yield from _attention(name, prefix)
        yield f"{prefix}.input_layernorm.weight", (WIDE,)
        yield f"{prefix}.post_attention_layernorm.weight", (WIDE,)
        if name.startswith("gemma"):
            yield f"{prefix}.pre_feedforward_layernorm.weight", (WIDE,)
            yield f"{prefix}.post_feedforward_layernorm.weight", (WIDE,)
        yield from _feed_forward(name, prefix, number)
    yield "model.norm.weight", (WIDE,)
    if not config.get("tie_word_embeddings") and not name.startswith("gemma"):
        yield "lm_head.weight", (TOKENS, WIDE)


def _attention(name, prefix):
    place, heads = f"{prefix}.self_attn", 2 * NARROW
    if name == "deepseek2":
        yield f"{place}.q_proj.weight", (2 * 32, WIDE)
        yield f"{place}.kv_a_proj_with_mqa.weight", (32 + 16, WIDE)
        yield f"{place}.kv_a_layernorm.weight", (32,)
        yield f"{place}.kv_b_proj.weight", (2 * (16 + 32), 32)
        yield f"{place}.o_proj.weight", (WIDE, 2 * 32)
        return
    if name == "phi3":
        yield f"{place}.qkv_proj.weight", (heads + 2 * NARROW, WIDE)
    else:
        for one, rows in (("q", heads), ("k", NARROW), ("v", NARROW)):
            yield f"{place}.{one}_proj.weight", (rows, WIDE)
            if name == "qwen2moe" or name.startswith("gpt-oss"):
                yield f"{place}.{one}_proj.bias", (rows,)
    yield f"{place}.o_proj.weight", (WIDE, heads)
    if name == "gemma3":
        yield f"{place}.q_norm.weight", (NARROW,)
        yield f"{place}.k_norm.weight", (NARROW,)
    if name.startswith("gpt-oss"):
        yield f"{place}.sinks", (2,)


def _feed_forward(name, prefix, number):
    place = f"{prefix}.mlp"
    if name == "phi3":
        yield f"{place}.gate_up_proj.weight", (2 * INNER, WIDE)
        yield f"{place}.down_proj.weight", (WIDE, INNER)
    elif name == "mixtral":
        place = f"{prefix}.block_sparse_moe"
        yield f"{place}.gate.weight", (EXPERTS, WIDE)
        yield from _experts(f"{place}.experts", ("w1", "w3", "w2"), INNER)
    elif name.startswith("gpt-oss"):
        yield f"{place}.router.weight", (EXPERTS, WIDE)
        yield f"{place}.router.bias", (EXPERTS,)
        if name == "gpt-oss":
            yield f"{place}.experts.gate_up_proj", (EXPERTS, WIDE, 2 * INNER)
            yield f"{place}.experts.down_proj", (EXPERTS, INNER, WIDE)
        else:
            for one, rows, columns in (("gate_up", 2 * INNER, WIDE), ("down", WIDE, INNER)):
                shape = (EXPERTS, rows, columns // 32)
                yield f"{place}.experts.{one}_proj_blocks", (*shape, 16)
                yield f"{place}.experts.{one}_proj_scales", shape
        yield f"{place}.experts.gate_up_proj_bias", (EXPERTS, 2 * INNER)
        yield f"{place}.experts.down_proj_bias", (EXPERTS, WIDE)
    elif name == "qwen2moe" or (name == "deepseek2" and number):
        yield f"{place}.gate.weight", (EXPERTS, WIDE)
        words = ("gate_proj", "up_proj", "down_proj")
        yield from _experts(f"{place}.experts", words, NARROW)
        shared = "shared_expert" if name == "qwen2moe" else "shared_experts"
        yield from _one(f"{place}.{shared}", words, WIDE)
        if name == "qwen2moe":
            yield f"{place}.shared_expert_gate.weight", (1, WIDE)
    else:
        yield from _one(place, ("gate_proj", "up_proj", "down_proj"), INNER)


def _experts(place, words, inner):
    for expert in range(EXPERTS):
        yield from _one(f"{place}.{expert}", words, inner)


def _one(place, words, inner):
    gate, up, down = words
    yield f"{place}.{gate}.weight", (inner, WIDE)
    yield f"{place}.{up}.weight", (inner, WIDE)
    yield f"{place}.{down}.weight", (WIDE, inner)


def vocabulary_of(kind):
    """Path -> bytes of a tokenizer's files."""
    if kind == "spm":
        told = {
            "tokenizer_class": "LlamaTokenizer",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "add_bos_token": True,
            "add_eos_token": False,
            "chat_template": "{{ messages }}",
            "added_tokens_decoder": {
                "300": {"content": "<|user|>", "special": False},
                "301": {"content": "\u2581\u2581", "special": False},
                "302": {"content": "<extra>", "special": True},
            },
        }
        return {
            "tokenizer.model": pieces(),
            "tokenizer_config.json": json.dumps(told).encode(),
        }
    tokenizer = byte_level(kind)
    told = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": {"content": "<|endoftext|>", "__type": "AddedToken"},
        "chat_template": "{{ messages }}",
    }
    return {
        "tokenizer.json": json.dumps(tokenizer).encode(),
        "tokenizer_config.json": json.dumps(told).encode(),
    }


def pieces(trainer=None):
    """A model of SentencePiece: control, bytes, and a few words."""
    found = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    found += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    words = ["\u2581", "a", "b", "\u2581a", "ab", "é", "日本"]
    found += [(word, -float(rank), 1) for rank, word in enumerate(words)]
    found += [("<mine>", 0.0, 4), ("<none>", 0.0, 5)]
    if trainer is None:
        trainer = field(2, b"\x18\x02\x98\x02\x01")  # BPE, with bytes for what is not there
    return b"".join(field(1, _piece(*one)) for one in found) + trainer


def _piece(text, score, kind):
    score = b"\x15" + struct.pack("<f", score) if score else b""
    kind = b"" if kind == 1 else b"\x18" + bytes([kind])
    return field(1, text.encode()) + score + kind


def field(number, data):
    """A field of a message of protobuf that has a length."""
    assert len(data) < 1 << 14
    length = (
        bytes([len(data)])
        if len(data) < 128
        else bytes([len(data) & 127 | 128, len(data) >> 7])
    )
    return bytes([number << 3 | 2]) + length + data


def byte_level(kind):
    """A tokenizer.json whose pairs of bytes merge."""
    split = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = split if kind == "llama3" else split.replace(r"\p{N}{1,3}", r"\p{N}")
    merges = [("a", "b"), ("ab", "c"), ("\u0120", "a"), ("\u0120a", "b")]
    vocab = {letter: number for number, letter in enumerate(_LETTERS)}
    for first, second in merges:
        vocab[first + second] = len(vocab)
    added = ["<|begin|>", "<|endoftext|>", "<tool>", "<|looks|>"]
    special = {"<|begin|>", "<|endoftext|>"}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": len(vocab) + number,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": content not in special,
                "special": content in special,
            }
            for number, content in enumerate(added)
        ],
        "normalizer": {"type": "NFC"} if kind == "qwen2" else None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": split},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": False,
                },
            ],
        },
        "post_processor": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": False,
            "use_regex": True,
        },
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": kind == "llama3",
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
        },
    }
    if kind == "llama3":
        first = {"SpecialToken": {"id": "<|begin|>", "type_id": 0}}
        text = [{"Sequence": {"id": one, "type_id": n}} for n, one in enumerate("AB")]
        told = {"id": "<|begin|>", "ids": [len(vocab)], "tokens": ["<|begin|>"]}
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [first, text[0]],
            "pair": [first, text[0], first, text[1]],
            "special_tokens": {"<|begin|>": told},
        }
    return tokenizer
