"""What each type costs, on one real model and two that are trained here: docs/choosing.md.

    .venv-zoo/bin/python tests/zoo/choosing.py --command .venv/bin/ingot --minilm DIR

MiniLM is judged by the cosine of sentence embeddings with those of its original weights. Two
small language models are trained on bytes that every Python installation has, a Llama on the
prose of its manual and a Qwen3 on the code of its library, and judged by the bits a byte that
they need for text which they have not seen. Every value comes from blobs: a model of the store
is decoded by `ingot create … -q f32`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import pydoc_data.topics
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.sentence_model import SENTENCES, SentenceModel

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED: Final = (
    ("int8", ("-q", "int8", "--recipe", "uniform")),
    ("mxfp8", ("-q", "mxfp8", "--recipe", "uniform")),
    ("int6", ("-q", "int6", "--recipe", "uniform")),
    ("int5", ("-q", "int5", "--recipe", "uniform")),
    ("int4", ("-q", "int4", "--recipe", "uniform")),
    ("int4, default", ("-q", "int4")),
    ("int4/64", ("-q", "int4/64", "--recipe", "uniform")),
    ("nvfp4", ("-q", "nvfp4", "--recipe", "uniform")),
    ("mxfp4", ("-q", "mxfp4", "--recipe", "uniform")),
    ("int3", ("-q", "int3", "--recipe", "uniform")),
    ("int2", ("-q", "int2", "--recipe", "uniform")),
    ("mixed_4_6", ("--recipe", "mixed_4_6")),
    ("mixed_3_6", ("--recipe", "mixed_3_6")),
    ("mixed_2_6", ("--recipe", "mixed_2_6")),
)
CONTEXT: Final = 256
BATCH: Final = 8
HELD_OUT: Final = 1 << 15
"""Bytes at the end of each text that are not trained on."""
SHAPE: Final = {
    "vocab_size": 256,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
Weights = "Mapping[str, np.ndarray[Any, Any]]"


class Judged(NamedTuple):
    """A model, and what is measured of weights in its place."""

    name: str
    source: Path
    unit: str
    judge: Callable[[Any], float]


def prose() -> bytes:
    """Return the topics of Python's manual."""
    topics = pydoc_data.topics.topics
    return "\n".join(topics[key] for key in sorted(topics)).encode()


def code() -> bytes:
    """Return a part of Python's library."""
    library = Path(sysconfig.get_paths()["stdlib"])
    return b"\n".join(path.read_bytes() for path in sorted(library.glob("[a-m]*.py")))


def trained(name: str, model: Any, text: bytes, steps: int, where: Path) -> Judged:
    """Train a model on a text, and save it as transformers does."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    seen, unseen = data[:-HELD_OUT], data[-HELD_OUT:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(len(seen) - CONTEXT, (BATCH,), generator=generator).tolist()
        batch = torch.stack([seen[start : start + CONTEXT] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.bfloat16().save_pretrained(where)
    model.float().eval()
    state = model.state_dict()

    def judge(weights: Any) -> float:
        with torch.no_grad():
            for key, value in state.items():
                if key in weights:
                    value.copy_(torch.from_numpy(weights[key].copy()))
            rows = unseen.reshape(-1, CONTEXT).split(BATCH)
            losses = [model(input_ids=row, labels=row).loss.item() * len(row) for row in rows]
        return sum(losses) / (HELD_OUT // CONTEXT) / math.log(2)

    return Judged(name, where, "bits a byte", judge)


def sentences(source: Path) -> Judged:
    """Return the real MiniLM."""
    model = SentenceModel(source)
    expected = model.embed(load_file(source / "model.safetensors"), SENTENCES)

    def judge(weights: Any) -> float:
        return float((model.embed(weights, SENTENCES) * expected).sum(axis=1).mean())

    return Judged("MiniLM-L6", source, "cosine", judge)


def stored(store: Path, name: str) -> dict[str, Any]:
    """Return the values of a model that is stored as F32."""
    path = store / "manifests/registry.ollama.ai/library" / name / "latest"
    weights = {}
    for layer in json.loads(path.read_bytes())["layers"]:
        if layer["mediaType"].endswith(".tensor"):
            blob = store / "blobs" / layer["digest"].replace(":", "-")
            weights |= load_file(blob)
    return weights


def measure(model: Judged, command: list[str], store: Path) -> None:
    """Print a row for each type."""

    def ingot(*words: object) -> str:
        argv = [*command, *map(str, words), "--store", str(store)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return done.stdout

    # As most models come: what is quantized then has scales of 16 bits.
    ingot("create", "base", model.source, "-q", "bf16")
    ingot("create", "plain", "base", "-q", "f32")
    plain = stored(store, "plain")
    print(f"\n{model.name}: {sum(w.size for w in plain.values()):,} parameters\n")
    print(f"| asked | bits a weight | size | SQNR dB | {model.unit} |")
    print("|---|--:|--:|--:|--:|")
    print(f"| bf16 | 16.00 | | | {model.judge(plain):.4f} |")
    for asked, words in ASKED:
        ingot("create", "small", "base", *words)
        facts = json.loads(ingot("show", "small", "--json"))
        nbytes = sum(one["bytes"] for one in facts["types"])
        ingot("create", "values", "small", "-q", "f32")
        values = stored(store, "values")
        changed = [key for key in plain if not np.array_equal(plain[key], values[key])]
        signal = sum(float((plain[key].astype(float) ** 2).sum()) for key in changed)
        noise = sum(
            float(((plain[key].astype(float) - values[key]) ** 2).sum()) for key in changed
        )
        sqnr = f"{10 * math.log10(signal / noise):.1f}" if noise else "exact"
        bits, size = f"{8 * nbytes / facts['parameters']:.2f}", f"{nbytes / 1e6:.1f} MB"
        print(f"| {asked} | {bits} | {size} | {sqnr} | {model.judge(values):.4f} |", flush=True)


def main() -> None:
    """Train, import, measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--command", default="ingot")
    parser.add_argument("--minilm", type=Path, required=True, help="directory of the model")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    command = shlex.split(options.command)
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
        root = Path(place)
        torch.manual_seed(0)
        llama = LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=False))
        qwen = Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=64, tie_word_embeddings=True))
        models = [
            sentences(options.minilm),
            trained("Llama, prose", llama, prose(), options.steps, root / "llama"),
            trained("Qwen3, code", qwen, code(), options.steps, root / "qwen"),
        ]
        for number, model in enumerate(models):
            measure(model, command, root / f"store{number}")


if __name__ == "__main__":
    main()
