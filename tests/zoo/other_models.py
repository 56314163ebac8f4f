"""Encoders, encoder-decoders and single models of diffusers in the zoo."""

from __future__ import annotations

from tests.zoo.parts import UNCONDITIONAL
from tests.zoo.specimens import (
    AUDIO,
    BASE,
    F16,
    F32,
    SEQ2SEQ,
    SHARDED,
    T5,
    TOKENS,
    VIT,
    WIDE,
    Model,
)

SPEECH = WIDE | {
    "vocab_size": 32,
    "intermediate_size": 48,
    "conv_dim": [8, 8],
    "conv_kernel": [3, 3],
    "conv_stride": [2, 2],
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "num_feat_extract_layers": 2,
}

SEQUENCES = {
    "t5": Model("T5ForConditionalGeneration", T5, **F16, **SHARDED, float32=("*.wo.weight",)),
    "bart": Model("BartForConditionalGeneration", SEQ2SEQ, **F32, **SHARDED),
    "marian": Model("MarianMTModel", SEQ2SEQ, **F16),
    "whisper": Model(
        "WhisperForConditionalGeneration",
        SEQ2SEQ
        | {
            "num_mel_bins": 8,
            "max_source_positions": 32,
            "max_target_positions": 16,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        **F16,
        **SHARDED,
        extras=("tokenizer", "audio-features"),
    ),
    "wav2vec2": Model("Wav2Vec2ForCTC", SPEECH | {"pad_token_id": 0}, **F32, **AUDIO),
    "hubert": Model("HubertModel", SPEECH, **F32, **SHARDED),
    "encodec": Model(
        "EncodecModel",
        {
            "num_filters": 4,
            "codebook_size": 16,
            "codebook_dim": 16,
            "hidden_size": 16,
            "num_lstm_layers": 1,
            "upsampling_ratios": [2, 2],
            "target_bandwidths": [1.5],
        },
        **F32,
    ),
    "clap": Model(
        "ClapModel",
        {
            "text_config": BASE | {"projection_dim": 16},
            "audio_config": {
                "patch_embeds_hidden_size": 8,
                "hidden_size": 16,
                "depths": [1, 1],
                "num_attention_heads": [1, 2],
                "num_mel_bins": 16,
                "spec_size": 32,
                "patch_size": 4,
                "patch_stride": [4, 4],
                "window_size": 4,
                "num_hidden_layers": 2,
                "projection_dim": 16,
            },
            "projection_dim": 16,
        },
        **F32,
    ),
}

ENCODERS = {
    "bert": Model("BertForMaskedLM", BASE, **F32, extras=("tokenizer", "formats")),
    "roberta": Model("RobertaForMaskedLM", BASE, **F32, **SHARDED),
    "modernbert": Model(
        "ModernBertForMaskedLM", BASE | {"cls_token_id": 1, "sep_token_id": 2}, **F32
    ),
    "distilbert": Model(
        "DistilBertForMaskedLM",
        TOKENS
        | {
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 2,
            "n_heads": 4,
            "max_position_embeddings": 64,
        },
        **F16,
    ),
    "albert": Model("AlbertForMaskedLM", BASE | {"embedding_size": 16}, **F32),
    "deberta-v2": Model("DebertaV2ForMaskedLM", BASE, **F16, **SHARDED),
    "electra": Model("ElectraForMaskedLM", BASE | {"embedding_size": 16}, **F32),
    "xlm-roberta": Model("XLMRobertaForMaskedLM", BASE, **F32),
    "esm": Model(
        "EsmForMaskedLM",
        BASE | {"mask_token_id": 3, "position_embedding_type": "rotary"},
        **F32,
    ),
    "vit": Model("ViTForImageClassification", VIT, **F32, extras=("image-processor",)),
    "dinov2": Model("Dinov2Model", WIDE | {"image_size": 28, "patch_size": 14}, **F32),
    "swin": Model(
        "SwinModel",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [1, 2],
            "window_size": 4,
        },
        **F32,
    ),
    # Has buffers of integers, which are no parameters.
    "resnet": Model(
        "ResNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
        **F32,
    ),
}

# Models of diffusers in a repository of their own.
DIFFUSERS = {
    "unet-alone": Model("UNet2DModel", UNCONDITIONAL, **F32),
    "unet-alone-fp16": Model(
        "UNet2DModel", UNCONDITIONAL, **F32, shard="40KB", saved=(None, "fp16"), imported="fp16"
    ),
}

OTHER_MODELS = SEQUENCES | ENCODERS | DIFFUSERS
