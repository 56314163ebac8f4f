"""Tiny models with real tokenizers of every kind, as transformers saves them."""

from __future__ import annotations

import zlib

import torch
import transformers

from tests.clients.gguf_tokenizers import VOCABULARY, write_tokenizer
from tests.clients.models import DEEPSEEK, EXPERTS, HEAD, MLA, SMALL

LONG = [1.0 + number / 16 for number in range(16)]

_WIDE = SMALL | {"vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 512}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

_DENSE = {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
_T5 = {
    "decoder_start_token_id": 0,
    "d_model": 256,
    "d_ff": 512,
    "d_kv": 64,
    "num_heads": 4,
    "num_layers": 2,
}
_OLD = {"n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 256}

MODELS = {
    # name: class of the configuration, what it is given, tokenizer
    "llama-spm": ("LlamaConfig", {}, "spm"),
    "llama-json": ("LlamaConfig", {"tie_word_embeddings": True}, "spm-json"),
    "llama3": ("LlamaConfig", {"rope_parameters": _LLAMA3_ROPE}, "llama3"),
    "llama-bias": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}, "llama3"),
    "mistral": ("MistralConfig", HEAD | {"sliding_window": None}, "spm"),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}, "spm"),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}, "qwen2"),
    "qwen2-yarn": ("Qwen2Config", {"rope_parameters": _YARN}, "qwen2"),
    "qwen2moe": ("Qwen2MoeConfig", EXPERTS | {"shared_expert_intermediate_size": 256}, "qwen2"),
    "qwen3": ("Qwen3Config", HEAD, "qwen2"),
    "qwen3moe": ("Qwen3MoeConfig", EXPERTS | HEAD | {"norm_topk_prob": True}, "qwen2"),
    "gemma": ("GemmaConfig", HEAD, "spm"),
    "gemma2": ("Gemma2Config", HEAD | {"query_pre_attn_scalar": 64}, "spm"),
    "gemma3": (
        "Gemma3TextConfig",
        HEAD | {"query_pre_attn_scalar": 64, "num_hidden_layers": 6},
        "spm",
    ),
    "phi3": ("Phi3Config", {"pad_token_id": 0, "num_key_value_heads": 4}, "spm"),
    "phi3-long": (
        "Phi3Config",
        {
            "pad_token_id": 0,
            "original_max_position_embeddings": 64,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "long_factor": LONG * 2,
                "short_factor": LONG * 2,
            },
        },
        "spm",
    ),
    "gpt-oss": (
        "GptOssConfig",
        HEAD
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 4.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
            },
        },
        "llama3",
    ),
    "deepseek2": (
        "DeepseekV2Config",
        DEEPSEEK | MLA | {"topk_method": "greedy", "rope_interleave": True},
        "llama3",
    ),
    "deepseek2-lite": (
        "DeepseekV2Config",
        DEEPSEEK | MLA | {"topk_method": "greedy", "q_lora_rank": None},
        "llama3",
    ),
    "smollm3": ("SmolLM3Config", {"pad_token_id": 0}, "llama3"),
    "arcee": ("ArceeConfig", {}, "llama3"),
    "granite": ("GraniteConfig", {"attention_multiplier": 0.2, "logits_scaling": 2.0}, "qwen2"),
    "olmo2": ("Olmo2Config", {}, "qwen2"),
    "seed-oss": ("SeedOssConfig", HEAD, "qwen2"),
    "starcoder2": ("Starcoder2Config", {}, "qwen2"),
    "olmoe": ("OlmoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}, "qwen2"),
    "cohere": ("CohereConfig", {}, "qwen2"),
    "cohere2": ("Cohere2Config", {"rotary_pct": 1.0}, "qwen2"),
    "phi2": ("PhiConfig", {"pad_token_id": 0, "num_key_value_heads": 4}, "llama3"),
    "stablelm": ("StableLmConfig", {"use_qkv_bias": True}, "llama3"),
    "deepseek3": ("DeepseekV3Config", DEEPSEEK | MLA, "llama3"),
    "olmo": ("OlmoConfig", {"clip_qkv": 4.0}, "qwen2"),
    "olmo3": ("Olmo3Config", {"num_hidden_layers": 4}, "qwen2"),
    "glm4": ("Glm4Config", HEAD | {"pad_token_id": 0}, "glm"),
    "glm4moe": ("Glm4MoeConfig", EXPERTS | HEAD | _DENSE, "glm"),
    "dots1": ("Dots1Config", EXPERTS | HEAD | _DENSE, "qwen2"),
    "minimax-m2": ("MiniMaxM2Config", EXPERTS | HEAD | {"rotary_dim": 32}, "qwen2"),
    "ernie4_5": ("Ernie4_5Config", HEAD, "spm"),
    "nemotron": ("NemotronConfig", HEAD, "spm"),
    "exaone4": ("Exaone4Config", {"num_hidden_layers": 4}, "qwen2"),
    "exaone4-global": (
        "Exaone4Config",
        {
            "rope_parameters": _LLAMA3_ROPE,
            "sliding_window": None,
            "layer_types": ["full_attention"] * 4,
        },
        "qwen2",
    ),
    "hunyuan": ("HunYuanDenseV1Config", HEAD, "qwen2"),
    "granitemoe": ("GraniteMoeConfig", {"num_local_experts": 4}, "qwen2"),
    "granitemoe-shared": (
        "GraniteMoeSharedConfig",
        {"num_local_experts": 4, "shared_intermediate_size": 256},
        "qwen2",
    ),
    "llama4": (
        "Llama4TextConfig",
        HEAD | {"intermediate_size_mlp": 512, "intermediate_size": 256, "num_local_experts": 4},
        "llama3",
    ),
    "gpt2": ("GPT2Config", _OLD | {"n_ctx": 256}, "qwen2"),
    "starcoder": ("GPTBigCodeConfig", _OLD, "qwen2"),
    "falcon": ("FalconConfig", {"num_kv_heads": 1}, "qwen2"),
    "falcon-groups": (
        "FalconConfig",
        {"new_decoder_architecture": True, "num_kv_heads": 2},
        "qwen2",
    ),
    "gptneox": ("GPTNeoXConfig", {}, "qwen2"),
    "glm": ("GlmConfig", HEAD | {"pad_token_id": 0}, "glm"),
    "phimoe": (
        "PhimoeConfig",
        {
            "num_local_experts": 4,
            "pad_token_id": 0,
            "original_max_position_embeddings": 64,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "long_factor": LONG * 2,
                "short_factor": LONG * 2,
                "short_mscale": 1.1,
                "long_mscale": 1.1,
                "original_max_position_embeddings": 64,
            },
        },
        "spm",
    ),
    "lfm2": (
        "Lfm2Config",
        {"layer_types": ["conv", "full_attention"] * 2, "block_multiple_of": 64},
        "llama3",
    ),
    "bloom": ("BloomConfig", {"n_layer": 2, "n_head": 4}, "qwen2"),
    "apertus": ("ApertusConfig", HEAD, "llama3"),
    "ernie4_5-moe": (
        "Ernie4_5_MoeConfig",
        HEAD
        | {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 256,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
        },
        "spm",
    ),
    "roberta": ("RobertaConfig", {"pad_token_id": 1}, "qwen2"),
    "modern-bert": (
        "ModernBertConfig",
        {"num_hidden_layers": 4, "global_attn_every_n_layers": 2, "pad_token_id": 0},
        "qwen2",
    ),
    "t5": ("T5Config", _T5 | {"feed_forward_proj": "gated-gelu"}, "unigram"),
    "t5-relu": ("T5Config", _T5 | {"num_decoder_layers": 3}, "unigram"),
    "lfm2-moe": (
        "Lfm2MoeConfig",
        EXPERTS
        | {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1}
        | {"moe_intermediate_size": 256},
        "llama3",
    ),
    "glm4-moe-lite": ("Glm4MoeLiteConfig", DEEPSEEK | MLA, "glm"),
    "ministral3": ("Ministral3Config", HEAD, "llama3"),
    "qwen3-embedding": ("Qwen3Config", HEAD, "qwen2"),
    "embedding-gemma": (
        "Gemma3TextConfig",
        HEAD | {"query_pre_attn_scalar": 64, "num_hidden_layers": 6},
        "spm",
    ),
    "distilbert": (
        "DistilBertConfig",
        {"dim": 256, "hidden_dim": 512, "n_heads": 4, "n_layers": 2},
        "wordpiece",
    ),
    "xlm-roberta": ("XLMRobertaConfig", {"pad_token_id": 1, "type_vocab_size": 1}, "fairseq"),
}
CLASSES = {
    "roberta": "RobertaModel",
    "modern-bert": "ModernBertModel",
    "t5": "T5ForConditionalGeneration",
    "t5-relu": "T5ForConditionalGeneration",
    "qwen3-embedding": "Qwen3Model",
    "embedding-gemma": "Gemma3TextModel",
    "distilbert": "DistilBertModel",
    "xlm-roberta": "XLMRobertaModel",
}
"""Of models that do not continue texts."""


def save(name, directory, dtype=torch.bfloat16):
    """Write a checkpoint of random weights with a tokenizer, in shards."""
    kind, asked, tokenizer = MODELS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    config = getattr(transformers, kind)(**(_WIDE | asked))
    own = CLASSES.get(name)
    auto = transformers.AutoModelForCausalLM
    model = getattr(transformers, own)(config) if own else auto.from_config(config)
    with torch.no_grad():
        for one, tensor in model.named_parameters():
            # Norms of ones and biases of zeros would hide what becomes of them.
            if one.endswith(("norm.weight", "bias", "sinks", "layernorm.weight")):
                tensor.add_(torch.randn(tensor.shape) * 0.05)
    model.to(dtype).save_pretrained(directory, max_shard_size="2MB")
    if kind == "PhimoeConfig":  # published ones, and the converter, spell it otherwise
        path = directory / "config.json"
        path.write_text(path.read_text().replace("PhimoeForCausalLM", "PhiMoEForCausalLM"))
    write_tokenizer(tokenizer, directory)
