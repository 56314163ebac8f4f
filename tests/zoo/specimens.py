"""What a row of the zoo's tables says, and the sizes that many rows share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """A checkpoint to write.

    Attributes:
        dtype: of the weights; a variant `fp16` has float16 instead.
        shard: largest size of a weights file, such as `20KB`, or None for one file each.
        saved: the variants to save, in this order; None is the one without a name.
        imported: the variant to import.
        float32: patterns of tensors that stay float32, whatever the others are.
        scheme: what ingot calls the quantization of the weights, None where they have none.
        block: rows and columns of FP8 weights that share a scale, if they have scales.
        is_refused: whether ingot has to refuse it, by the name of its scheme.
        extras: what else to write, each a key of `make_zoo.EXTRAS`.
    """

    dtype: str = "bfloat16"
    shard: str | None = None
    saved: tuple[str | None, ...] = (None,)
    imported: str | None = None
    float32: tuple[str, ...] = ()
    scheme: str | None = None
    block: tuple[int, int] | None = None
    is_refused: bool = False
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Model(Specimen):
    """One model of transformers or diffusers.

    Attributes:
        architecture: its class.
        config: of the class's configuration.
        original: whether to save with the tensor names of the Hub, not with those in memory.
        quantizer: configuration class of transformers and its arguments; the layers become
            quantized ones, and their contents are random like all others.
    """

    architecture: str
    config: Config
    original: bool = True
    quantizer: tuple[str, Config] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A component of a pipeline: a model, scheduler, tokenizer or image processor.

    Attributes:
        architecture: its class.
        config: of the class's configuration, or its arguments.
    """

    architecture: str
    config: Config


@dataclass(frozen=True, slots=True)
class Pipeline(Specimen):
    """A pipeline of diffusers.

    Attributes:
        architecture: its class.
        parts: its components; a list is several of a kind, None one that is left away.
        variant_parts: the components that variants are saved of; all by default.
    """

    architecture: str
    parts: Mapping[str, Part | list[Part] | None]
    variant_parts: tuple[str, ...] = ()


# How to save.
F16 = {"dtype": "float16"}
F32 = {"dtype": "float32"}
SHARDED = {"shard": "20KB"}
TEXT = {"extras": ("tokenizer",)}
AUDIO = {"extras": ("audio-features",)}

# Sizes.
TOKENS = {"vocab_size": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
BASE = TOKENS | WIDE | {"intermediate_size": 48, "max_position_embeddings": 64}
GQA = BASE | {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = GQA | {"num_experts": 4, "num_experts_per_tok": 2}
LOCAL = GQA | {"num_local_experts": 4, "num_experts_per_tok": 2}
FINE = EXPERTS | {"moe_intermediate_size": 16}
VIT = WIDE | {"intermediate_size": 48, "image_size": 28, "patch_size": 14}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
QWEN_VL = {
    "text_config": GQA | {"rope_parameters": MROPE},
    "vision_config": {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "out_hidden_size": 32,
        "num_heads": 4,
        "patch_size": 4,
        "fullatt_block_indexes": [1],
    },
    "image_token_id": 5,
    "video_token_id": 6,
    "vision_start_token_id": 7,
    "vision_end_token_id": 8,
}

OPT = TOKENS | WIDE | {"ffn_dim": 48, "max_position_embeddings": 64}
T5 = TOKENS | {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
SEQ2SEQ = TOKENS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
