"""Checkpoints that are large enough to be quantized: most matrices fit groups, some do not.

Widths decide what fits: a multiple of 64 all types, 96 and 160 no int8, 80 only nvfp4, 72 none.
Eight experts and 128 columns give routers the 1024 elements that a matrix needs.
"""

from __future__ import annotations

from tests.zoo.parts import CLIP_TEXT, CLIP_WORDS, FLOW, QWEN_WORDS, T5_TEXT, T5_WORDS
from tests.zoo.specimens import F16, F32, MROPE, SHARDED, TOKENS, VIT, Model, Part, Pipeline

LARGE = TOKENS | {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
}
EXPERTS = LARGE | {"num_experts": 8, "num_experts_per_tok": 2}
LOCAL = LARGE | {"num_local_experts": 8, "num_experts_per_tok": 2}
SHARED = LARGE | {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
}
MLA = SHARED | {
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 32,
    "n_group": 2,
    "topk_group": 1,
}
TOWER = VIT | {"hidden_size": 128, "intermediate_size": 256}
QWEN_VL = {
    "text_config": LARGE | {"rope_parameters": MROPE | {"mrope_section": [4, 4, 8]}},
    "vision_config": {
        "depth": 2,
        "hidden_size": 128,
        "intermediate_size": 256,
        "out_hidden_size": 128,
        "num_heads": 4,
        "patch_size": 4,
        "fullatt_block_indexes": [1],
    },
    "image_token_id": 5,
    "video_token_id": 6,
    "vision_start_token_id": 7,
    "vision_end_token_id": 8,
}
CORRECTED = {"float32": ("*e_score_correction_bias",)}

MODELS = {
    "llama": Model("LlamaForCausalLM", LARGE, **F32),
    "qwen2": Model("Qwen2ForCausalLM", LARGE | {"intermediate_size": 160}),
    "gemma3-text": Model("Gemma3ForCausalLM", LARGE | {"intermediate_size": 72}),
    "phi3": Model("Phi3ForCausalLM", LARGE | {"intermediate_size": 192}, **F16, shard="100KB"),
    "t5": Model(
        "T5ForConditionalGeneration",
        T5_TEXT | {"d_model": 128, "d_kv": 32, "d_ff": 256},
        **F16,
        float32=("*.wo.weight",),
    ),
    "bert": Model("BertForSequenceClassification", LARGE, **F32),
    "qwen2.5-vl": Model("Qwen2_5_VLForConditionalGeneration", QWEN_VL, shard="200KB"),
    "gemma3": Model(
        "Gemma3ForConditionalGeneration",
        {
            "text_config": LARGE,
            "vision_config": TOWER,
            "mm_tokens_per_image": 4,
            "image_token_index": 5,
            "boi_token_index": 6,
            "eoi_token_index": 7,
        },
    ),
    # More experts than one digit counts: `10` sorts before `2`.
    "qwen3-moe": Model(
        "Qwen3MoeForCausalLM", EXPERTS | {"num_experts": 12, "moe_intermediate_size": 96}
    ),
    "qwen2-moe": Model(
        "Qwen2MoeForCausalLM",
        EXPERTS | {"moe_intermediate_size": 64, "shared_expert_intermediate_size": 192},
        **F16,
    ),
    "mixtral": Model("MixtralForCausalLM", LOCAL, shard="500KB"),
    "mixtral-fused": Model("MixtralForCausalLM", LOCAL, original=False),
    "deepseek-v3": Model(
        "DeepseekV3ForCausalLM", MLA | {"moe_intermediate_size": 64}, **CORRECTED
    ),
    "glm4-moe": Model(
        "Glm4MoeForCausalLM", SHARED | {"moe_intermediate_size": 80}, **CORRECTED
    ),
    "gpt-oss": Model("GptOssForCausalLM", LOCAL),
    "olmoe": Model("OlmoeForCausalLM", EXPERTS | {"intermediate_size": 64}, **F32),
}

CLIP = Part("CLIPTextModel", CLIP_TEXT | {"hidden_size": 64, "intermediate_size": 160})
T5 = Part("T5EncoderModel", T5_TEXT | {"d_model": 64, "d_kv": 16, "d_ff": 128})
LATENT = {"block_out_channels": [32, 64], "layers_per_block": 1, "norm_num_groups": 4}
VAE = Part(
    "AutoencoderKL",
    LATENT
    | {
        "down_block_types": ["DownEncoderBlock2D"] * 2,
        "up_block_types": ["UpDecoderBlock2D"] * 2,
        "latent_channels": 4,
    },
)

PIPELINES = {
    "sd": Pipeline(
        "StableDiffusionPipeline",
        {
            "vae": VAE,
            "text_encoder": CLIP,
            "tokenizer": CLIP_WORDS,
            "unet": Part(
                "UNet2DConditionModel",
                LATENT
                | {
                    "block_out_channels": [64, 128],
                    "sample_size": 8,
                    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
                    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
                    "cross_attention_dim": 64,
                    "attention_head_dim": 4,
                },
            ),
            "scheduler": Part("PNDMScheduler", {}),
            "safety_checker": None,
            "feature_extractor": None,
        },
        **F32,
    ),
    "flux": Pipeline(
        "FluxPipeline",
        {
            "scheduler": FLOW,
            "vae": VAE,
            "text_encoder": CLIP,
            "tokenizer": CLIP_WORDS,
            "text_encoder_2": T5,
            "tokenizer_2": T5_WORDS,
            "transformer": Part(
                "FluxTransformer2DModel",
                {
                    "in_channels": 16,
                    "num_layers": 2,
                    "num_single_layers": 2,
                    "attention_head_dim": 16,
                    "num_attention_heads": 4,
                    "joint_attention_dim": 64,
                    "pooled_projection_dim": 64,
                    "axes_dims_rope": [4, 4, 8],
                    "guidance_embeds": True,
                },
            ),
        },
        shard="300KB",
    ),
    "qwen-image": Pipeline(
        "QwenImagePipeline",
        {
            "scheduler": FLOW,
            "vae": Part(
                "AutoencoderKLQwenImage",
                {
                    "base_dim": 32,
                    "z_dim": 4,
                    "dim_mult": [1, 2],
                    "num_res_blocks": 1,
                    "temperal_downsample": [False],
                },
            ),
            "text_encoder": Part("Qwen2_5_VLForConditionalGeneration", QWEN_VL),
            "tokenizer": QWEN_WORDS,
            "transformer": Part(
                "QwenImageTransformer2DModel",
                {
                    "patch_size": 2,
                    "in_channels": 16,
                    "out_channels": 4,
                    "num_layers": 2,
                    "attention_head_dim": 16,
                    "num_attention_heads": 4,
                    "joint_attention_dim": 128,
                    "axes_dims_rope": [4, 4, 8],
                },
            ),
        },
        **F16,
        **SHARDED,
    ),
}

QUANTIZABLE = MODELS | PIPELINES
