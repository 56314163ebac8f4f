"""Tiny models that see, as transformers saves them."""

from __future__ import annotations

import json
import zlib

import torch
import transformers

from tests.clients.gguf_tokenizers import write_tokenizer

_TEXT = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
_TOWER = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
}
_PREPARED = {
    "image_mean": [0.48, 0.45, 0.4],
    "image_std": [0.26, 0.26, 0.27],
    "image_seq_length": 4,
}


def _gemma3():
    text = transformers.Gemma3TextConfig(**_TEXT)
    tower = _TOWER | {"vision_use_head": False}
    return transformers.Gemma3Config(
        text_config=text.to_dict(), vision_config=tower, mm_tokens_per_image=4
    )


def _pixtral():
    text = transformers.MistralConfig(**_TEXT)
    tower = _TOWER | {"model_type": "pixtral", "head_dim": 32}
    return transformers.LlavaConfig(text_config=text.to_dict(), vision_config=tower)


MODELS = {"gemma3vision": (_gemma3, "spm"), "pixtral": (_pixtral, "llama3")}


def save(name, directory):
    """Write a checkpoint of random weights, with the names that published ones have."""
    make, tokenizer = MODELS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    model = transformers.AutoModelForImageTextToText.from_config(make())
    model.to(torch.bfloat16).save_pretrained(directory)
    write_tokenizer(tokenizer, directory)
    (directory / "preprocessor_config.json").write_text(json.dumps(_PREPARED))
    if name == "pixtral":
        path = directory / "tokenizer.json"
        told = json.loads(path.read_bytes())
        told["added_tokens"][-1]["content"] = "[IMG_BREAK]"  # the converter looks for it
        path.write_text(json.dumps(told))
    else:
        _rename(directory)


def _rename(directory):
    """Give towers the names of transformers 4, which the converter alone knows."""
    from safetensors.torch import load_file, save_file

    path = directory / "model.safetensors"
    tensors = {
        one.replace("vision_tower.", "vision_tower.vision_model."): tensor
        for one, tensor in load_file(path).items()
    }
    save_file(tensors, path, {"format": "pt"})
