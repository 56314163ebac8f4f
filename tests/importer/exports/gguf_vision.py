"""Small checkpoints of models that see, with the names that such models are published with."""

from __future__ import annotations

import json

from tests.importer.builders import safetensors, write
from tests.importer.exports.gguf_checkpoints import BASE, INNER, WIDE, tensors_of, vocabulary_of
from tests.importer.exports.mlx_checkpoints import values

BLOCKS, PATCH, SIDE = 3, 4, 4
_TOWER = {
    "hidden_size": WIDE,
    "intermediate_size": INNER,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 2,
    "image_size": PATCH * SIDE,
    "patch_size": PATCH,
}
MODELS = {
    # name: class, model_type, model of text, its model_type, that of the tower, vocabulary
    "gemma3": (
        *("Gemma3ForConditionalGeneration", "gemma3"),
        *("gemma3", "gemma3_text", "siglip_vision_model", "spm"),
    ),
    "pixtral": (
        *("LlavaForConditionalGeneration", "llava"),
        *("llama", "llama", "pixtral", "llama3"),
    ),
}
TYPES = ("f32", "f16", "bf16", "q8_0")


def checkpoint(directory, name):
    """Write a model of two files; give its directory."""
    kind, family, text, text_kind, tower, vocabulary = MODELS[name]
    inner = {**BASE, "model_type": text_kind, "head_dim": 32}
    config = {
        "architectures": [kind],
        "model_type": family,
        "text_config": inner,
        "vision_config": {**_TOWER, "model_type": tower},
    }
    prepared = {
        "image_mean": [0.5, 0.25, 0.1],
        "image_std": [0.3, 0.2, 1.0],
        "image_seq_length": 4,
    }
    if name == "pixtral":
        # As in mistral-community/pixtral-12b, which llama.cpp asks for this token.
        break_token = {"added_tokens_decoder": {"3": {"content": "[IMG_BREAK]"}}}
        prepared |= {"patch_size": PATCH}
    words = vocabulary_of(vocabulary)
    if name == "pixtral":
        told = json.loads(words["tokenizer_config.json"]) | break_token
        words["tokenizer_config.json"] = json.dumps(told).encode()
    parts = {
        "text": {f"language_model.{one}": shape for one, shape in tensors_of(text, inner)},
        "tower": dict(_tower(name)),
    }
    files = {
        "config.json": json.dumps(config).encode(),
        "preprocessor_config.json": json.dumps(prepared).encode(),
        **words,
    }
    index = {}
    for number, part in enumerate(parts.values(), 1):
        path = f"model-{number:05d}-of-00002.safetensors"
        files[path] = safetensors(
            {one: values(f"{name} {one}", shape, "BF16") for one, shape in part.items()}
        )
        index |= dict.fromkeys(part, path)
    told = {"metadata": {}, "weight_map": index}
    files["model.safetensors.index.json"] = json.dumps(told).encode()
    write(directory, files)
    return directory


def _tower(name):
    if name == "gemma3":
        yield "multi_modal_projector.mm_input_projection_weight", (WIDE, WIDE)
        yield "multi_modal_projector.mm_soft_emb_norm.weight", (WIDE,)
        place = "vision_tower.vision_model"
        yield f"{place}.embeddings.patch_embedding.weight", (WIDE, 3, PATCH, PATCH)
        yield f"{place}.embeddings.patch_embedding.bias", (WIDE,)
        yield f"{place}.embeddings.position_embedding.weight", (SIDE * SIDE, WIDE)
        for number in range(BLOCKS):
            block = f"{place}.encoder.layers.{number}"
            for one in ("q", "k", "v", "out"):
                yield from _linear(f"{block}.self_attn.{one}_proj", WIDE, WIDE)
            yield from _linear(f"{block}.mlp.fc1", INNER, WIDE)
            yield from _linear(f"{block}.mlp.fc2", WIDE, INNER)
            for one in ("layer_norm1", "layer_norm2"):
                yield f"{block}.{one}.weight", (WIDE,)
                yield f"{block}.{one}.bias", (WIDE,)
        yield f"{place}.post_layernorm.weight", (WIDE,)
        yield f"{place}.post_layernorm.bias", (WIDE,)
        return
    yield from _linear("multi_modal_projector.linear_1", WIDE, WIDE)
    yield from _linear("multi_modal_projector.linear_2", WIDE, WIDE)
    yield "vision_tower.patch_conv.weight", (WIDE, 3, PATCH, PATCH)
    yield "vision_tower.ln_pre.weight", (WIDE,)
    for number in range(BLOCKS):
        block = f"vision_tower.transformer.layers.{number}"
        for one in ("q", "k", "v", "o"):
            yield f"{block}.attention.{one}_proj.weight", (WIDE, WIDE)
        for one in ("gate", "up"):
            yield f"{block}.feed_forward.{one}_proj.weight", (INNER, WIDE)
        yield f"{block}.feed_forward.down_proj.weight", (WIDE, INNER)
        yield f"{block}.attention_norm.weight", (WIDE,)
        yield f"{block}.ffn_norm.weight", (WIDE,)


def _linear(place, rows, columns):
    yield f"{place}.weight", (rows, columns)
    yield f"{place}.bias", (rows,)
