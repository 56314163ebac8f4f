"""Components that several pipelines of the zoo have."""

from __future__ import annotations

from tests.zoo.specimens import VIT, Part

CLIP_TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 16,
    "projection_dim": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
T5_TEXT = {
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "feed_forward_proj": "gated-gelu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
SMALL = {"block_out_channels": [8, 16], "layers_per_block": 1, "norm_num_groups": 4}
ATTENTION = {"cross_attention_dim": 32, "attention_head_dim": 4}
CROSS = ["CrossAttnDownBlock2D", "DownBlock2D"]

UNCONDITIONAL = SMALL | {
    "sample_size": 8,
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
    "attention_head_dim": 4,
}

CLIP = Part("CLIPTextModel", CLIP_TEXT)
CLIP_PROJECTED = Part("CLIPTextModelWithProjection", CLIP_TEXT)
CLIP_WORDS = Part(
    "CLIPTokenizer",
    {
        "vocab": {"<|startoftext|>": 0, "<|endoftext|>": 1, "a": 2, "b</w>": 3, "ab</w>": 4},
        "merges": [("a", "b</w>")],
    },
)
T5 = Part("T5EncoderModel", T5_TEXT)
T5_WORDS = Part(
    "T5Tokenizer",
    {
        "vocab": [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -2.0), ("\u2581a", -1.0)],
        "extra_ids": 2,
    },
)
QWEN_WORDS = Part("Qwen2Tokenizer", {"vocab": {"<|endoftext|>": 0, "a": 1}, "merges": []})
FLOW = Part("FlowMatchEulerDiscreteScheduler", {})
VAE = Part(
    "AutoencoderKL",
    SMALL
    | {
        "down_block_types": ["DownEncoderBlock2D"] * 2,
        "up_block_types": ["UpDecoderBlock2D"] * 2,
        "latent_channels": 4,
    },
)
UNET = Part(
    "UNet2DConditionModel",
    SMALL
    | ATTENTION
    | {
        "sample_size": 8,
        "down_block_types": CROSS,
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    },
)
UNET_XL = Part(
    "UNet2DConditionModel",
    SMALL
    | {
        "sample_size": 8,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
        "cross_attention_dim": 64,
        "attention_head_dim": [2, 4],
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "transformer_layers_per_block": [1, 2],
        "projection_class_embeddings_input_dim": 80,
    },
)
CONTROL = Part(
    "ControlNetModel",
    SMALL
    | ATTENTION
    | {"down_block_types": CROSS, "conditioning_embedding_out_channels": [8, 16]},
)
SAFETY = Part(
    "StableDiffusionSafetyChecker",
    {
        "vision_config": VIT | {"projection_dim": 32},
        "text_config": CLIP_TEXT,
        "projection_dim": 32,
    },
)
