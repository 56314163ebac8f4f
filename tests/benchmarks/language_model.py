"""Train a small Llama on what every Python installation has: its manual and its docstrings.

    .venv-zoo/bin/python tests/benchmarks/language_model.py DIR [--steps 400]

Writes DIR/model as transformers does (BF16, a byte-level BPE of 1024 tokens), and two texts
that it has not seen: DIR/calibration, docstrings of Python's library, and DIR/held-out, topics
of its manual. The same on every run of the same machine, threads and version of torch.
"""

from __future__ import annotations

import argparse
import ast
import pydoc_data.topics
import random
import sysconfig
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TOKENS: Final = 1024
CONTEXT: Final = 128
BATCH: Final = 8
SHAPE: Final = {
    "vocab_size": TOKENS,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
CALIBRATION, HELD_OUT = 60_000, 30_000
"""Characters that are not trained on."""


def manual() -> tuple[str, str]:
    """Return topics of Python's manual: those that are trained on, and some that are not."""
    keys = sorted(pydoc_data.topics.topics)
    random.Random(1).shuffle(keys)
    seen, unseen = [], []
    size = 0
    for key in keys:
        topic = pydoc_data.topics.topics[key]
        (unseen if size < HELD_OUT else seen).append(topic)
        size += len(topic)
    return "\n".join(seen), "\n".join(unseen)[:HELD_OUT]


def docstrings() -> tuple[str, str]:
    """Return docstrings of Python's library, divided likewise."""
    found: dict[str, None] = {}
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if len(text) > 60:
                    found[text] = None
    some = list(found)
    random.Random(1).shuffle(some)
    whole = "\n\n".join(some)
    return whole[CALIBRATION:], whole[:CALIBRATION]


def tokenizer_of(text: str) -> PreTrainedTokenizerFast:
    """Return a BPE of bytes, cut into words as GPT-2 does, which llama.cpp knows."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([text], trainer)
    special = dict.fromkeys(("bos_token", "eos_token"), "<|endoftext|>")
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def trained(text: str, tokenizer: PreTrainedTokenizerFast, steps: int) -> LlamaForCausalLM:
    """Train on windows of a text that are drawn by a seed."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    data = torch.tensor(tokenizer(text, verbose=False)["input_ids"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        starts = torch.randint(len(data) - CONTEXT, (BATCH,), generator=generator).tolist()
        batch = torch.stack([data[start : start + CONTEXT] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step}: {loss.item():.3f} nats a token", flush=True)
    return model.bfloat16()


def main() -> None:
    """Train, and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    (topics, held_out), (docs, calibration) = manual(), docstrings()
    text = topics + "\n" + docs
    tokenizer = tokenizer_of(text)
    model = trained(text, tokenizer, options.steps)
    folder = options.directory / "model"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (options.directory / "calibration").write_text(calibration, encoding="utf-8")
    (options.directory / "held-out").write_text(held_out, encoding="utf-8")


if __name__ == "__main__":
    main()
