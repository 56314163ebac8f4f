"""Models of the zoo that llama.cpp's converter knows, and more of their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.zoo.language_models import LANGUAGE_MODELS, MLA
from tests.zoo.other_models import SEQUENCES
from tests.zoo.specimens import BASE, FINE, GQA, LOCAL, T5, TOKENS, Model

_NAMES: Final = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3", "gpt2"),
    *("gpt-bigcode", "gpt-neox", "falcon", "bloom", "cohere", "cohere2", "olmo", "olmo2"),
    *("olmo3", "starcoder2", "stablelm", "granite", "smollm3", "glm4", "exaone4", "nemotron"),
    *("mixtral", "qwen2-moe", "qwen3-moe-twelve", "deepseek-v2", "glm4-moe", "olmoe"),
    *("gpt-oss", "llama4-text", "dbrx", "granite-moe", "granite-moe-shared", "ernie-moe"),
    *("hunyuan-moe", "minimax-m2", "mamba", "mamba2", "falcon-mamba", "jamba", "bamba"),
    *("falcon-h1", "qwen3-next", "lfm2"),
)
_LINEAR: Final = FINE | {
    "num_hidden_layers": 4,
    "shared_expert_intermediate_size": 24,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_LLAMA3: Final = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_MISTRAL3: Final = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
_GEMMA3N: Final = GQA | {
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 16,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 128,
    "laurel_rank": 4,
    "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
}
_GEMMA4: Final = GQA | {
    "num_hidden_layers": 6,
    "global_head_dim": 16,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "sliding_window": 16,
    "num_kv_shared_layers": 3,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 128,
    "use_double_wide_mlp": True,
}
_GEMMA4_MOE: Final = GQA | {
    "global_head_dim": 16,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 16,
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 24,
    "final_logit_softcapping": 30.0,
}
_KIMI_LINEAR: Final = BASE | {
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "layer_types": [*["linear_attention"] * 3, "full_attention"],
    "linear_head_dim": 8,
    "linear_num_heads": 4,
}
_FIT: Final = {key: value for key, value in MLA.items() if key != "head_dim"}
_HYBRID: Final = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 4,
    "mamba_n_groups": 1,
}
_MORE: Final = {
    "llama3": Model(
        "LlamaForCausalLM",
        GQA | {"max_position_embeddings": 131072, "rope_parameters": _LLAMA3},
    ),
    "llama-bias": Model("LlamaForCausalLM", GQA | {"attention_bias": True, "mlp_bias": True}),
    "qwen2-tied": Model("Qwen2ForCausalLM", GQA | {"tie_word_embeddings": True}),
    "qwen3-moe-norm": Model("Qwen3MoeForCausalLM", FINE | {"norm_topk_prob": True}),
    "qwen3.5": Model("Qwen3_5ForCausalLM", _LINEAR),
    "qwen3.5-moe": Model("Qwen3_5MoeForCausalLM", _LINEAR),
    "mistral3": Model("Ministral3ForCausalLM", GQA | {"rope_parameters": _MISTRAL3}),
    "gemma-embedding": Model(
        "Gemma3TextModel", GQA | {"use_bidirectional_attention": True, "sliding_window": 16}
    ),
    "gemma3n": Model("Gemma3nForCausalLM", _GEMMA3N),
    "lfm2-moe": Model(
        "Lfm2MoeForCausalLM",
        FINE
        | {"num_dense_layers": 1, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3},
    ),
    "glm-dsa": Model(
        "GlmMoeDsaForCausalLM",
        _FIT | {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 64},
    ),
    "deepseek-v3-fit": Model("DeepseekV3ForCausalLM", _FIT),
    "gemma3": Model("Gemma3ForCausalLM", GQA),
    "arcee": Model("ArceeForCausalLM", GQA),
    "afmoe": Model("AfmoeForCausalLM", FINE),
    "seed-oss": Model("SeedOssForCausalLM", GQA),
    "glm": Model("GlmForCausalLM", GQA),
    "hunyuan-dense": Model("HunYuanDenseV1ForCausalLM", GQA),
    "ernie": Model("Ernie4_5ForCausalLM", GQA),
    "exaone-moe": Model("ExaoneMoeForCausalLM", FINE),
    "jais2": Model("Jais2ForCausalLM", GQA),
    "mellum": Model("MellumForCausalLM", GQA),
    "granite-hybrid": Model(
        "GraniteMoeHybridForCausalLM",
        LOCAL
        | _HYBRID
        | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 16},
    ),
    "nemotron-h": Model(
        "NemotronHForCausalLM",
        GQA
        | {
            "n_routed_experts": 4,
            "moe_intermediate_size": 16,
            "moe_shared_expert_intermediate_size": 24,
            "hybrid_override_pattern": "M*-",
            "num_hidden_layers": 3,
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "ssm_state_size": 4,
            "n_groups": 1,
        },
    ),
    "mpt": Model(
        "MptForCausalLM",
        TOKENS | {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    ),
    "phimoe": Model(
        "PhimoeForCausalLM",
        LOCAL
        | {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "minicpm3": Model(
        "MiniCPM3ForCausalLM",
        BASE
        | {
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
        },
    ),
    "apertus": Model("ApertusForCausalLM", GQA),
    "gemma4-shared": Model("Gemma4ForCausalLM", _GEMMA4),
    "gemma4-moe": Model("Gemma4ForCausalLM", _GEMMA4_MOE),
    "kimi-linear": Model("KimiLinearForCausalLM", _KIMI_LINEAR),
    "mimo2": Model(
        "MiMoV2FlashForCausalLM",
        GQA
        | {
            "num_hidden_layers": 3,
            "head_dim": 12,
            "v_head_dim": 8,
            "moe_intermediate_size": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 17,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
    ),
    "bert-plain": Model("BertModel", BASE),
    "distilbert-plain": Model(
        "DistilBertModel",
        TOKENS
        | {
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 2,
            "n_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "modernbert-plain": Model("ModernBertModel", BASE | {"cls_token_id": 1, "sep_token_id": 2}),
    "t5-encoder": Model("T5EncoderModel", T5),
}

GGUF_MODELS: Final[Mapping[str, Model]] = (
    {name: LANGUAGE_MODELS[name] for name in _NAMES} | {"t5": SEQUENCES["t5"]} | _MORE
)
