"""Small models of random weights with a tokenizer of letters, and ingot with torch beside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = "".join(f"line {n} of a text that is read\n" for n in range(40))
CONTEXT: Final = 48
SHAPE: Final = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def ingot(*words: object, code: int = 0) -> str:
    """Run a command with the torch of this interpreter."""
    argv = [sys.executable, "-m", "cli", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done.stdout if code == 0 else done.stderr


def make(root: Path) -> dict[str, Path]:
    """Save the models, each with a tokenizer of bytes."""
    torch.manual_seed(0)
    experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    made = {
        "llama": LlamaForCausalLM(LlamaConfig(**SHAPE)),
        "moe": Qwen3MoeForCausalLM(Qwen3MoeConfig(**SHAPE, **experts, head_dim=16)),
        "bert": BertModel(
            BertConfig(**{key: SHAPE[key] for key in SHAPE if "key_value" not in key})
        ),
        "gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=256, n_embd=64, n_layer=2, n_head=4)),
    }
    letters = Tokenizer(
        models.BPE(vocab={chr(n): n for n in range(256)}, merges=[], unk_token="\0")
    )
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters)
    for name, model in made.items():
        for parameter in model.parameters():  # far enough from each other to be told apart
            parameter.data += torch.randn_like(parameter) * 0.05
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: root / name for name in made}
