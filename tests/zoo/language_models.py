"""Language models of the zoo: dense, mixtures of experts, recurrent."""

from __future__ import annotations

from tests.zoo.specimens import (
    BASE,
    EXPERTS,
    F16,
    F32,
    FINE,
    GQA,
    LOCAL,
    OPT,
    SEQ2SEQ,
    SHARDED,
    T5,
    TEXT,
    TOKENS,
    WIDE,
    Model,
)

GPT = TOKENS | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
SHARED = GQA | {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
MLA = SHARED | {
    "num_key_value_heads": 4,
    "num_hidden_layers": 3,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 2,
    "topk_group": 1,
}
SSM = TOKENS | {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}
MAMBA_HEADS = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 4,
    "mamba_n_groups": 1,
}
FLOAT8_BLOCKS = {
    "quantizer": ("FineGrainedFP8Config", {"weight_block_size": (16, 16)}),
    "scheme": "fp8-block",
    "block": (16, 16),
    "float32": ("*_scale_inv",),
}

DENSE = {
    "llama": Model("LlamaForCausalLM", GQA, **SHARDED, extras=("tokenizer", "card")),
    "llama-trained": Model("LlamaForCausalLM", GQA, **F32, extras=("tokenizer", "trainer")),
    "llama-everything": Model(
        "LlamaForCausalLM", GQA, extras=("tokenizer", "card", "formats", "hidden")
    ),
    "llama-fp16": Model("LlamaForCausalLM", GQA, saved=("fp16",), imported="fp16"),
    "llama-fp16-sharded": Model(
        "LlamaForCausalLM", GQA, **SHARDED, saved=("fp16",), imported="fp16"
    ),
    "llama-both": Model("LlamaForCausalLM", GQA, **F32, saved=(None, "fp16")),
    "llama-both-fp16": Model(
        "LlamaForCausalLM", GQA, **F32, **SHARDED, saved=(None, "fp16"), imported="fp16"
    ),
    "mistral": Model("MistralForCausalLM", GQA, **F16, **SHARDED, **TEXT),
    "qwen2": Model("Qwen2ForCausalLM", GQA, **TEXT),
    "qwen3": Model("Qwen3ForCausalLM", GQA, **SHARDED, **TEXT),
    "gemma": Model("GemmaForCausalLM", GQA, **F16),
    "gemma2": Model("Gemma2ForCausalLM", GQA, **F32),
    "gemma3-text": Model("Gemma3ForCausalLM", GQA, **TEXT),
    "phi": Model("PhiForCausalLM", GQA, **F16),
    "phi3": Model("Phi3ForCausalLM", GQA, **SHARDED),
    "gpt2": Model("GPT2LMHeadModel", GPT, **F32, **SHARDED),
    "gpt-bigcode": Model("GPTBigCodeForCausalLM", GPT, **F32),
    "gpt-j": Model("GPTJForCausalLM", GPT | {"rotary_dim": 4}, **F16),
    "gpt-neox": Model("GPTNeoXForCausalLM", BASE, **F16),
    "opt": Model("OPTForCausalLM", OPT | {"word_embed_proj_dim": 16}, **F16, **SHARDED),
    "falcon": Model(
        "FalconForCausalLM",
        TOKENS | WIDE | {"num_kv_heads": 2, "new_decoder_architecture": True},
    ),
    "bloom": Model(
        "BloomForCausalLM", TOKENS | {"hidden_size": 32, "n_layer": 2, "n_head": 4}, **F16
    ),
    "mpt": Model(
        "MptForCausalLM",
        {"vocab_size": 128, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    ),
    "cohere": Model("CohereForCausalLM", GQA, **F16),
    "cohere2": Model("Cohere2ForCausalLM", GQA),
    "olmo": Model("OlmoForCausalLM", GQA, **F32),
    "olmo2": Model("Olmo2ForCausalLM", GQA, **F32, **SHARDED),
    "olmo3": Model("Olmo3ForCausalLM", GQA),
    "starcoder2": Model("Starcoder2ForCausalLM", GQA),
    "stablelm": Model("StableLmForCausalLM", GQA, **F16),
    "granite": Model("GraniteForCausalLM", GQA),
    "smollm3": Model("SmolLM3ForCausalLM", GQA),
    "glm4": Model("Glm4ForCausalLM", GQA),
    "exaone4": Model("Exaone4ForCausalLM", GQA),
    "nemotron": Model("NemotronForCausalLM", GQA),
    "bitnet": Model("BitNetForCausalLM", GQA),
    # Four weights in a byte.
    "bitnet-packed": Model(
        "BitNetForCausalLM",
        GQA,
        quantizer=("BitNetQuantConfig", {}),
        scheme="bitnet",
        is_refused=True,
    ),
    "llama-float8-blocks": Model("LlamaForCausalLM", GQA, **SHARDED, **FLOAT8_BLOCKS),
    # Cast, without any scale, as many a file for image generators: nothing to unpack.
    "llama-float8": Model("LlamaForCausalLM", GQA, dtype="float8_e4m3fn"),
    "llama-float64": Model("LlamaForCausalLM", GQA, dtype="float64"),
}

MIXTURES = {
    "mixtral": Model("MixtralForCausalLM", LOCAL, **SHARDED, **TEXT),
    # As the library holds it: all experts of a projection in one tensor of three dimensions.
    "mixtral-fused": Model("MixtralForCausalLM", LOCAL, original=False),
    "qwen2-moe": Model(
        "Qwen2MoeForCausalLM", FINE | {"shared_expert_intermediate_size": 24}, **SHARDED
    ),
    "qwen3-moe": Model("Qwen3MoeForCausalLM", FINE, **SHARDED),
    # More experts than one digit counts: `10` sorts before `2`.
    "qwen3-moe-twelve": Model("Qwen3MoeForCausalLM", FINE | {"num_experts": 12}, **F16),
    "qwen3-moe-float8-blocks": Model("Qwen3MoeForCausalLM", FINE, **FLOAT8_BLOCKS),
    # Under the names of projections that the Hub has, and as the library holds them.
    "mixtral-float8-blocks": Model("MixtralForCausalLM", LOCAL, **FLOAT8_BLOCKS),
    "mixtral-fused-float8": Model("MixtralForCausalLM", LOCAL, original=False, **FLOAT8_BLOCKS),
    "deepseek-v2": Model(
        "DeepseekV2ForCausalLM", MLA | {"topk_method": "group_limited_greedy"}, **SHARDED
    ),
    "deepseek-v3": Model(
        "DeepseekV3ForCausalLM", MLA, **SHARDED, float32=("*e_score_correction_bias",)
    ),
    "glm4-moe": Model(
        "Glm4MoeForCausalLM", SHARED, **SHARDED, float32=("*e_score_correction_bias",)
    ),
    "olmoe": Model("OlmoeForCausalLM", EXPERTS, **F32),
    "gpt-oss": Model("GptOssForCausalLM", LOCAL, **SHARDED),
    "llama4-text": Model(
        "Llama4ForCausalLM",
        LOCAL | {"intermediate_size_mlp": 48, "interleave_moe_layer_step": 1},
    ),
    "dbrx": Model(
        "DbrxForCausalLM",
        {
            "vocab_size": 128,
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 64,
            "ffn_config": {"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2},
            "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        },
        **SHARDED,
    ),
    "granite-moe": Model("GraniteMoeForCausalLM", LOCAL),
    "granite-moe-shared": Model(
        "GraniteMoeSharedForCausalLM", LOCAL | {"shared_intermediate_size": 16}, **SHARDED
    ),
    "jetmoe": Model(
        "JetMoeForCausalLM", LOCAL | {"kv_channels": 8, "intermediate_size": 16}, **F16
    ),
    "phimoe": Model("PhimoeForCausalLM", LOCAL),
    "ernie-moe": Model(
        "Ernie4_5_MoeForCausalLM",
        GQA
        | {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 16,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
        },
    ),
    "hunyuan-moe": Model(
        "HunYuanMoEV1ForCausalLM",
        GQA | {"num_experts": 4, "moe_topk": 2, "moe_intermediate_size": 16},
        **SHARDED,
    ),
    "minimax-m2": Model("MiniMaxM2ForCausalLM", LOCAL | {"rotary_dim": 4}),
    "switch": Model(
        "SwitchTransformersForConditionalGeneration",
        T5
        | {
            "num_decoder_layers": 2,
            "num_experts": 4,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
        },
        **F32,
    ),
    "nllb-moe": Model(
        "NllbMoeForConditionalGeneration",
        SEQ2SEQ | {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2},
        **F32,
        **SHARDED,
    ),
}

RECURRENT = {
    "mamba": Model("MambaForCausalLM", SSM, float32=("*.A_log", "*.D")),
    "mamba2": Model(
        "Mamba2ForCausalLM", SSM | {"num_heads": 8, "head_dim": 8, "n_groups": 2}, **SHARDED
    ),
    "falcon-mamba": Model("FalconMambaForCausalLM", SSM, **SHARDED),
    "rwkv": Model(
        "RwkvForCausalLM",
        {
            "vocab_size": 128,
            "hidden_size": 32,
            "attention_hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "context_length": 64,
        },
        **F32,
    ),
    "jamba": Model(
        "JambaForCausalLM",
        EXPERTS
        | {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
        },
        **SHARDED,
    ),
    "zamba2": Model(
        "Zamba2ForCausalLM",
        BASE
        | {
            "num_hidden_layers": 3,
            "mamba_d_state": 4,
            "n_mamba_heads": 2,
            "mamba_ngroups": 1,
            "mamba_headdim": 32,
            "num_mem_blocks": 1,
            "hybrid_layer_ids": [1],
            "layers_block_type": ["mamba", "hybrid", "mamba"],
            "adapter_rank": 4,
        },
    ),
    "bamba": Model("BambaForCausalLM", GQA | MAMBA_HEADS | {"attn_layer_indices": [1]}),
    "falcon-h1": Model(
        "FalconH1ForCausalLM", GQA | MAMBA_HEADS | {"mamba_n_heads": 4, "mamba_d_ssm": 32}
    ),
    "recurrent-gemma": Model(
        "RecurrentGemmaForCausalLM",
        GQA | {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16},
        **F16,
    ),
    "qwen3-next": Model(
        "Qwen3NextForCausalLM",
        FINE
        | {
            "num_hidden_layers": 4,
            "shared_expert_intermediate_size": 24,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
        **SHARDED,
    ),
    "xlstm": Model(
        "xLSTMForCausalLM",
        {
            "vocab_size": 128,
            "hidden_size": 32,
            "embedding_dim": 32,
            "num_blocks": 2,
            "num_heads": 4,
        },
        **F32,
    ),
    "lfm2": Model("Lfm2ForCausalLM", GQA | {"layer_types": ["conv", "full_attention"]}),
}

LANGUAGE_MODELS = DENSE | MIXTURES | RECURRENT
