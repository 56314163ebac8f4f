"""The pipelines of the zoo: a directory for each component, most of them with weights."""

from __future__ import annotations

from tests.zoo.parts import (
    CLIP,
    CLIP_PROJECTED,
    CLIP_WORDS,
    CONTROL,
    FLOW,
    QWEN_WORDS,
    SAFETY,
    T5,
    T5_TEXT,
    T5_WORDS,
    UNCONDITIONAL,
    UNET,
    UNET_XL,
    VAE,
)
from tests.zoo.specimens import F16, F32, GQA, QWEN_VL, Part, Pipeline

SHARDED = {"shard": "100KB"}

VIDEO_VAE = {
    "base_dim": 8,
    "z_dim": 4,
    "dim_mult": [1, 2],
    "num_res_blocks": 1,
    "temperal_downsample": [False],
}
WAN = {
    "patch_size": [1, 2, 2],
    "num_attention_heads": 2,
    "attention_head_dim": 16,
    "in_channels": 4,
    "out_channels": 4,
    "text_dim": 32,
    "freq_dim": 16,
    "ffn_dim": 48,
    "num_layers": 2,
}
SD = {
    "vae": VAE,
    "text_encoder": CLIP,
    "tokenizer": CLIP_WORDS,
    "unet": UNET,
    "scheduler": Part("PNDMScheduler", {}),
    "safety_checker": SAFETY,
    "feature_extractor": Part("CLIPImageProcessorPil", {}),
}
SD_BARE = SD | {"safety_checker": None, "feature_extractor": None}
SDXL = {
    "vae": VAE,
    "text_encoder": CLIP,
    "text_encoder_2": CLIP_PROJECTED,
    "tokenizer": CLIP_WORDS,
    "tokenizer_2": CLIP_WORDS,
    "unet": UNET_XL,
    "scheduler": Part("EulerDiscreteScheduler", {}),
}
FLUX = {
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
            "num_attention_heads": 2,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 32,
            "axes_dims_rope": [4, 4, 8],
            "guidance_embeds": True,
        },
    ),
}

PIPELINES = {
    "sd": Pipeline("StableDiffusionPipeline", SD, **F32, extras=("card", "vocabulary")),
    "sd-fp16": Pipeline("StableDiffusionPipeline", SD, saved=("fp16",), imported="fp16"),
    "sd-both": Pipeline("StableDiffusionPipeline", SD, **F32, saved=(None, "fp16")),
    "sdxl": Pipeline(
        "StableDiffusionXLPipeline", SDXL, **F32, **SHARDED, extras=("card", "single-file")
    ),
    # As SDXL on the Hub: some components have a variant, the others do not.
    "sdxl-some-fp16": Pipeline(
        "StableDiffusionXLPipeline",
        SDXL,
        **F32,
        **SHARDED,
        saved=(None, "fp16"),
        imported="fp16",
        variant_parts=("unet", "vae"),
    ),
    "sd-controlnet": Pipeline(
        "StableDiffusionControlNetPipeline", SD_BARE | {"controlnet": CONTROL}, **F16
    ),
    "sd-controlnets": Pipeline(
        "StableDiffusionControlNetPipeline",
        SD_BARE | {"controlnet": [CONTROL, CONTROL]},
        **F32,
        shard="60KB",
    ),
    "flux": Pipeline("FluxPipeline", FLUX, **SHARDED),
    "flux-modular": Pipeline("FluxModularPipeline", FLUX, **SHARDED),
    "sd3": Pipeline(
        "StableDiffusion3Pipeline",
        {
            "scheduler": FLOW,
            "vae": VAE,
            "text_encoder": CLIP_PROJECTED,
            "tokenizer": CLIP_WORDS,
            "text_encoder_2": CLIP_PROJECTED,
            "tokenizer_2": CLIP_WORDS,
            "text_encoder_3": T5,
            "tokenizer_3": T5_WORDS,
            "transformer": Part(
                "SD3Transformer2DModel",
                {
                    "sample_size": 8,
                    "patch_size": 1,
                    "in_channels": 4,
                    "out_channels": 4,
                    "num_layers": 2,
                    "attention_head_dim": 8,
                    "num_attention_heads": 4,
                    "joint_attention_dim": 32,
                    "caption_projection_dim": 32,
                    "pooled_projection_dim": 64,
                },
            ),
        },
        **F16,
        **SHARDED,
    ),
    "pixart-sigma": Pipeline(
        "PixArtSigmaPipeline",
        {
            "tokenizer": T5_WORDS,
            "text_encoder": T5,
            "vae": VAE,
            "transformer": Part(
                "PixArtTransformer2DModel",
                {
                    "sample_size": 8,
                    "num_layers": 2,
                    "patch_size": 2,
                    "attention_head_dim": 8,
                    "num_attention_heads": 4,
                    "caption_channels": 32,
                    "in_channels": 4,
                    "cross_attention_dim": 32,
                    "out_channels": 8,
                    "attention_bias": True,
                    "use_additional_conditions": False,
                },
            ),
            "scheduler": Part("DPMSolverMultistepScheduler", {}),
        },
        **F16,
    ),
    "z-image": Pipeline(
        "ZImagePipeline",
        {
            "scheduler": FLOW,
            "vae": VAE,
            "text_encoder": Part("Qwen3Model", GQA),
            "tokenizer": QWEN_WORDS,
            "transformer": Part(
                "ZImageTransformer2DModel",
                {
                    "in_channels": 4,
                    "dim": 32,
                    "n_layers": 2,
                    "n_refiner_layers": 1,
                    "n_heads": 2,
                    "n_kv_heads": 2,
                    "cap_feat_dim": 32,
                    "axes_dims": [4, 4, 8],
                    "axes_lens": [16, 16, 16],
                },
            ),
        },
        **SHARDED,
    ),
    "qwen-image": Pipeline(
        "QwenImagePipeline",
        {
            "scheduler": FLOW,
            "vae": Part("AutoencoderKLQwenImage", VIDEO_VAE),
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
                    "num_attention_heads": 2,
                    "joint_attention_dim": 32,
                    "axes_dims_rope": [4, 4, 8],
                },
            ),
        },
        **SHARDED,
    ),
    "wan": Pipeline(
        "WanPipeline",
        {
            "tokenizer": T5_WORDS,
            "text_encoder": Part("UMT5EncoderModel", T5_TEXT),
            "vae": Part("AutoencoderKLWan", VIDEO_VAE),
            "scheduler": Part("UniPCMultistepScheduler", {}),
            "transformer": Part("WanTransformer3DModel", WAN),
            "transformer_2": Part("WanTransformer3DModel", WAN),
        },
        **SHARDED,
        float32=("*scale_shift_table", "*norm2*"),
    ),
    "sana": Pipeline(
        "SanaPipeline",
        {
            "tokenizer": None,
            "text_encoder": Part("Gemma2Model", GQA),
            "vae": Part(
                "AutoencoderDC",
                {
                    "in_channels": 3,
                    "latent_channels": 4,
                    "attention_head_dim": 4,
                    "encoder_block_types": ["ResBlock", "EfficientViTBlock"],
                    "decoder_block_types": ["ResBlock", "EfficientViTBlock"],
                    "encoder_block_out_channels": [8, 16],
                    "decoder_block_out_channels": [8, 16],
                    "encoder_layers_per_block": [1, 1],
                    "decoder_layers_per_block": [1, 1],
                    "encoder_qkv_multiscales": [[], [5]],
                    "decoder_qkv_multiscales": [[], [5]],
                    "downsample_block_type": "conv",
                },
            ),
            "transformer": Part(
                "SanaTransformer2DModel",
                {
                    "in_channels": 4,
                    "out_channels": 4,
                    "num_layers": 2,
                    "num_attention_heads": 4,
                    "attention_head_dim": 8,
                    "num_cross_attention_heads": 4,
                    "cross_attention_head_dim": 8,
                    "cross_attention_dim": 32,
                    "caption_channels": 32,
                    "sample_size": 8,
                },
            ),
            "scheduler": Part("DPMSolverMultistepScheduler", {}),
        },
    ),
    "ddpm": Pipeline(
        "DDPMPipeline",
        {
            "unet": Part("UNet2DModel", UNCONDITIONAL),
            "scheduler": Part("DDPMScheduler", {}),
        },
        **F32,
    ),
}
