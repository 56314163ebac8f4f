"""Models of the zoo that see or hear, and also write."""

from __future__ import annotations

from tests.zoo.specimens import (
    AUDIO,
    BASE,
    F16,
    F32,
    FINE,
    GQA,
    LOCAL,
    MROPE,
    OPT,
    QWEN_VL,
    SHARDED,
    VIT,
    Model,
)

VISION = {"extras": ("tokenizer", "image-processor")}
CLIP_VISION = VIT | {"model_type": "clip_vision_model", "projection_dim": 16}
SIGLIP_VISION = VIT | {"model_type": "siglip_vision_model"}
LLAMA_TEXT = GQA | {"model_type": "llama"}
MISTRAL_TEXT = GQA | {"model_type": "mistral"}
QWEN_TEXT = GQA | {"model_type": "qwen2"}

MULTIMODAL_MODELS = {
    "qwen2-vl": Model(
        "Qwen2VLForConditionalGeneration",
        QWEN_VL
        | {
            "vision_config": {
                "depth": 2,
                "embed_dim": 32,
                "hidden_size": 32,
                "num_heads": 4,
                "mlp_ratio": 2,
                "patch_size": 4,
            }
        },
        **SHARDED,
        **VISION,
    ),
    "qwen2.5-vl": Model("Qwen2_5_VLForConditionalGeneration", QWEN_VL, **VISION),
    "qwen3-vl-moe": Model(
        "Qwen3VLMoeForConditionalGeneration",
        QWEN_VL
        | {
            "text_config": FINE | {"rope_parameters": MROPE},
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 48,
                "out_hidden_size": 32,
                "num_heads": 4,
                "patch_size": 4,
                "num_position_embeddings": 16,
                "deepstack_visual_indexes": [0, 1],
            },
        },
        **SHARDED,
    ),
    "llava": Model(
        "LlavaForConditionalGeneration",
        {"text_config": LLAMA_TEXT, "vision_config": CLIP_VISION, "image_token_index": 5},
        **F16,
        **SHARDED,
        **VISION,
    ),
    "llava-next": Model(
        "LlavaNextForConditionalGeneration",
        {"text_config": MISTRAL_TEXT, "vision_config": CLIP_VISION, "image_token_index": 5},
        **F16,
    ),
    "llava-onevision": Model(
        "LlavaOnevisionForConditionalGeneration",
        {
            "text_config": QWEN_TEXT,
            "vision_config": SIGLIP_VISION,
            "image_token_index": 5,
            "video_token_index": 6,
        },
    ),
    "paligemma": Model(
        "PaliGemmaForConditionalGeneration",
        {
            "text_config": GQA | {"model_type": "gemma"},
            "vision_config": SIGLIP_VISION,
            "hidden_size": 32,
            "projection_dim": 32,
            "image_token_index": 5,
        },
        **F32,
        **SHARDED,
    ),
    "gemma3": Model(
        "Gemma3ForConditionalGeneration",
        {
            "text_config": GQA,
            "vision_config": VIT,
            "mm_tokens_per_image": 4,
            "image_token_index": 5,
            "boi_token_index": 6,
            "eoi_token_index": 7,
        },
        **SHARDED,
        **VISION,
    ),
    "mistral3": Model(
        "Mistral3ForConditionalGeneration",
        {
            "text_config": MISTRAL_TEXT,
            "vision_config": VIT | {"model_type": "pixtral", "head_dim": 8},
            "image_token_index": 5,
        },
    ),
    "idefics3": Model(
        "Idefics3ForConditionalGeneration",
        {
            "text_config": LLAMA_TEXT,
            "vision_config": VIT,
            "image_token_id": 5,
            "scale_factor": 2,
        },
        **SHARDED,
    ),
    "smolvlm": Model(
        "SmolVLMForConditionalGeneration",
        {
            "text_config": LLAMA_TEXT,
            "vision_config": VIT,
            "image_token_id": 5,
            "scale_factor": 2,
        },
        **F32,
    ),
    "mllama": Model(
        "MllamaForConditionalGeneration",
        {
            "text_config": GQA
            | {
                "num_hidden_layers": 3,
                "cross_attention_layers": [1],
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            },
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_global_layers": 1,
                "attention_heads": 4,
                "image_size": 28,
                "patch_size": 14,
                "max_num_tiles": 2,
                "vision_output_dim": 64,
                "intermediate_layers_indices": [0],
                "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
            },
            "image_token_index": 5,
        },
        **SHARDED,
    ),
    "llama4": Model(
        "Llama4ForConditionalGeneration",
        {
            "text_config": LOCAL
            | {"intermediate_size_mlp": 48, "interleave_moe_layer_step": 1},
            "vision_config": VIT
            | {
                "vision_output_dim": 32,
                "projector_input_dim": 32,
                "projector_output_dim": 32,
                "pixel_shuffle_ratio": 0.5,
            },
            "image_token_index": 5,
            "boi_token_index": 6,
            "eoi_token_index": 7,
        },
        **SHARDED,
    ),
    "internvl": Model(
        "InternVLForConditionalGeneration",
        {
            "text_config": QWEN_TEXT,
            "vision_config": VIT | {"image_size": [28, 28], "patch_size": [14, 14]},
            "image_token_id": 5,
        },
    ),
    "aria": Model(
        "AriaForConditionalGeneration",
        {
            "text_config": GQA
            | {"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1},
            "vision_config": VIT | {"model_type": "idefics3_vision"},
            "image_token_index": 5,
            "projector_patch_to_query_dict": {"4": 4},
        },
        **SHARDED,
    ),
    "blip2": Model(
        "Blip2ForConditionalGeneration",
        {
            "text_config": OPT | {"model_type": "opt", "word_embed_proj_dim": 32},
            "vision_config": VIT,
            "qformer_config": BASE | {"encoder_hidden_size": 32},
            "num_query_tokens": 4,
            "image_token_index": 5,
        },
        **F16,
    ),
    "qwen2-audio": Model(
        "Qwen2AudioForConditionalGeneration",
        {
            "text_config": QWEN_TEXT,
            "audio_config": {
                "model_type": "qwen2_audio_encoder",
                "d_model": 32,
                "encoder_layers": 2,
                "encoder_attention_heads": 4,
                "encoder_ffn_dim": 48,
                "num_mel_bins": 8,
                "max_source_positions": 16,
            },
            "audio_token_index": 5,
        },
        **AUDIO,
    ),
    # Says that it has 1200.0 positions.
    "music-flamingo": Model(
        "MusicFlamingoForConditionalGeneration",
        {
            "text_config": QWEN_TEXT,
            "audio_config": {
                "model_type": "audioflamingo3_encoder",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_mel_bins": 8,
                "max_source_positions": 16,
            },
            "audio_token_id": 5,
        },
    ),
    "clip": Model(
        "CLIPModel", {"text_config": BASE, "vision_config": VIT, "projection_dim": 16}, **F32
    ),
    "siglip": Model("SiglipModel", {"text_config": BASE, "vision_config": VIT}, **F32),
}
