"""Train a small language model on what every Python installation has.

    .venv-zoo/bin/python tests/benchmarks/language_model.py DIR [--kind llama] [--steps 400]

`llama` has 4 layers, 2 heads of keys for 4 of queries, and an output layer of its own; `deep`
is a Llama of 10 narrower layers with as many heads of each; `qwen3` has tied embeddings. Writes
DIR/model as transformers does (BF16, a byte-level BPE of 1024 tokens), and two texts that it
has not seen. Llamas learn the manual of Python and docstrings of its library: DIR/calibration
has other docstrings, and DIR/held-out other topics of the manual. Qwen3 learns code of the
library and the manual: DIR/calibration has other topics, and DIR/held-out other code. The same
on every run of the same machine, threads and version of torch.
"""

from __future__ import annotations

import argparse
import ast
import pydoc_data.topics
import random
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

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
DEEP: Final = {
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 10,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
}
TIED: Final = {"num_hidden_layers": 5, "head_dim": 64, "tie_word_embeddings": True}
CALIBRATION, HELD_OUT = 60_000, 30_000
"""Characters that are not trained on."""
LIBRARY: Final = Path(sysconfig.get_paths()["stdlib"])


class Texts(NamedTuple):
    """What a model learns, and what it does not see.

    Attributes:
        calibration: of another domain than what is held out.
    """

    learned: str
    calibration: str
    held_out: str


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
    for path in sorted(LIBRARY.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if len(text) > 60:
                    found[text] = None
    some = list(found)
    random.Random(1).shuffle(some)
    whole = "\n\n".join(some)
    return whole[CALIBRATION:], whole[:CALIBRATION]


def prose() -> Texts:
    """Return the manual and docstrings."""
    (topics, held_out), (docs, calibration) = manual(), docstrings()
    return Texts(topics + "\n" + docs, calibration, held_out)


def code() -> Texts:
    """Return code and the manual."""
    topics, calibration = manual()
    seen, unseen = (
        "\n".join(path.read_text(encoding="utf-8") for path in sorted(LIBRARY.glob(glob)))
        for glob in ("[a-m]*.py", "[n-z]*.py")
    )
    middle = len(unseen) // 2
    return Texts(topics + "\n" + seen, calibration, unseen[middle : middle + HELD_OUT])


class Kind(NamedTuple):
    """A model that is trained."""

    make: Callable[[], Any]
    texts: Callable[[], Texts]


KINDS: Final = {
    "llama": Kind(lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)), prose),
    "deep": Kind(lambda: LlamaForCausalLM(LlamaConfig(**SHAPE | DEEP)), prose),
    "qwen3": Kind(lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE | TIED)), code),
}


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


def trained(make: Callable[[], Any], ids: list[int], steps: int) -> Any:
    """Return a model that is trained on windows of a text that are drawn by a seed."""
    torch.manual_seed(0)
    model = make()
    data = torch.tensor(ids)
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
    parser.add_argument("--kind", choices=KINDS, default="llama")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    kind = KINDS[options.kind]
    texts = kind.texts()
    tokenizer = tokenizer_of(texts.learned)
    ids = tokenizer(texts.learned, verbose=False)["input_ids"]
    model = trained(kind.make, ids, options.steps)
    folder = options.directory / "model"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name in ("calibration", "held_out"):
        path = options.directory / name.replace("_", "-")
        path.write_text(getattr(texts, name), encoding="utf-8")


if __name__ == "__main__":
    main()
