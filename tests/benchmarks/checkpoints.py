"""Write synthetic BF16 checkpoints that ingot and its peers accept, the same bytes each time.

    python tests/benchmarks/checkpoints.py MODEL DIRECTORY AMOUNT

AMOUNT is in bytes of weights of BF16 at least, for `small` the number of tensors. `tuned` is
`dense` with every tenth tensor changed; `pytorch` and the kinds of `gguf` have its shapes, one
file each. Weights are N(0, 0.02), cut off to BF16, and rounded again where a file has F16.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.importer.formats.pytorch import builders

SHARDS: Final = 3
BF16: Final = 2
"""Bytes of an element."""
GGUF_KINDS: Final = {"F32": 0, "F16": 1, "Q8_0": 8, "BF16": 30}
GGUF_ALIGNMENT: Final = 32
GGUF_NAMES: Final = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.o_proj": "attn_output",
    "self_attn.": "attn_",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.": "ffn_",
    "_proj": "",
}
"""What GGUF calls parts of names."""
NARROW_BELOW: Final = 500_000_000
"""Bytes under which a model has narrow layers, for the harness's own tests."""
VOCABULARY: Final = {"<|begin|>": 0, "<|end|>": 1, "a": 2, "b": 3}

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is to be written.

    Attributes:
        shapes: of each tensor.
        changed: which tensors have other weights.
        form: `safetensors`, `pytorch`, or a kind of GGUF.
    """

    config: dict[str, Any]
    shapes: Shapes
    changed: frozenset[str] = frozenset()
    form: str = "safetensors"

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return sum(map(math.prod, self.shapes.values())) * BF16


def dense(nbytes: int) -> Checkpoint:
    """Plan a llama of at least `nbytes` bytes, with as many layers as that takes."""
    width = 2048 if nbytes >= NARROW_BELOW else 256
    inner = width * 11 // 4
    config = _config("llama", width) | {"intermediate_size": inner}
    return _grown(config, nbytes, lambda layer: _mlp(f"{layer}.mlp", inner, width))


def tuned(nbytes: int) -> Checkpoint:
    """Plan a fine-tune of `dense`: every tenth tensor has other weights.

    From the third on, which leaves out the two largest: 9 % of the bytes instead of 15 %.
    """
    base = dense(nbytes)
    return Checkpoint(base.config, base.shapes, frozenset(sorted(base.shapes)[2::10]))


def moe(nbytes: int) -> Checkpoint:
    """Plan a qwen3_moe of at least `nbytes` bytes in some 1 600 expert tensors."""
    experts = 64
    width = 1024 if nbytes >= NARROW_BELOW else 128
    inner = width * 5 // 8
    config = _config("qwen3_moe", width) | {
        "decoder_sparse_step": 1,
        "intermediate_size": width * 4,
        "mlp_only_layers": [],
        "moe_intermediate_size": inner,
        "norm_topk_prob": True,
        "num_experts": experts,
        "num_experts_per_tok": 8,
    }

    def layer_shapes(layer: str) -> Shapes:
        head = (config["head_dim"],)
        shapes = {
            f"{layer}.self_attn.q_norm.weight": head,
            f"{layer}.self_attn.k_norm.weight": head,
            f"{layer}.mlp.gate.weight": (experts, width),
        }
        for number in range(experts):
            shapes |= _mlp(f"{layer}.mlp.experts.{number}", inner, width)
        return shapes

    return _grown(config, nbytes, layer_shapes)


def small(tensors: int) -> Checkpoint:
    """Plan `tensors` tensors of 4 KiB: what each tensor costs beside its bytes."""
    config = _config("llama", 64) | {"num_hidden_layers": tensors}
    names = (f"model.layers.{number}.mlp.up_proj.weight" for number in range(tensors))
    return Checkpoint(config, dict.fromkeys(names, (32, 64)))


def formed(form: str) -> Callable[[int], Checkpoint]:
    """Plan the llama of `dense` in another form."""
    return lambda nbytes: replace(dense(nbytes), form=form)


MODELS: Final[dict[str, Callable[[int], Checkpoint]]] = {
    "dense": dense,
    "tuned": tuned,
    "moe": moe,
    "small": small,
    "pytorch": formed("pytorch"),
    "gguf": formed("BF16"),
    "gguf-f16": formed("F16"),
    "gguf-q8_0": formed("Q8_0"),
}


def write(checkpoint: Checkpoint, directory: Path) -> None:
    """Write the checkpoint, unless `directory` has it: it appears whole or not at all."""
    mark = json.dumps(
        [checkpoint.config, checkpoint.nbytes, len(checkpoint.changed), checkpoint.form]
    )
    if (directory / ".complete").is_file() and (directory / ".complete").read_text() == mark:
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if checkpoint.form in GGUF_KINDS:
        _write_gguf(checkpoint, directory / "model.gguf")
    elif checkpoint.form == "pytorch":
        _write_pytorch(checkpoint, directory / "pytorch_model.bin")
        _write_documents(checkpoint, directory)
    else:
        _write_shards(checkpoint, directory)
        _write_documents(checkpoint, directory)
    os.sync()
    (directory / ".complete").write_text(mark)


def _write_shards(checkpoint: Checkpoint, directory: Path) -> None:
    shards = [f"model-{n:05d}-of-{SHARDS:05d}.safetensors" for n in range(1, SHARDS + 1)]
    names = list(checkpoint.shapes)
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards):
        mine = names[number * len(names) // SHARDS : (number + 1) * len(names) // SHARDS]
        _write_shard(checkpoint, mine, directory / shard)
        weight_map |= dict.fromkeys(mine, shard)
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}, indent=1))


def _write_documents(checkpoint: Checkpoint, directory: Path) -> None:
    for name, document in {
        "config.json": checkpoint.config,
        "tokenizer.json": _TOKENIZER,
        "tokenizer_config.json": {
            "bos_token": "<|begin|>",
            "eos_token": "<|end|>",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    }.items():
        (directory / name).write_text(json.dumps(document, indent=1))


def _write_pytorch(checkpoint: Checkpoint, path: Path) -> None:
    """Write what `torch.save` does: a zip of a pickle and of one file for each tensor."""
    state = {
        name: builders.tensor(
            builders.storage(str(number), math.prod(shape), "torch\nBFloat16Storage"),
            shape=shape,
            strides=tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))),
        )
        for number, (name, shape) in enumerate(checkpoint.shapes.items())
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", builders.pickled(builders.mapping(**state)))
        for number, name in enumerate(checkpoint.shapes):
            archive.writestr(f"model/data/{number}", _weights(checkpoint, name))
        archive.writestr("model/version", "3\n")


def _write_gguf(checkpoint: Checkpoint, path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    config = checkpoint.config
    facts = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
    }
    header = b"GGUF" + struct.pack("<IQQ", 3, len(checkpoint.shapes), 1 + len(facts))
    header += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for key, value in facts.items():
        header += text(f"llama.{key}") + struct.pack("<II", 4, value)
    kinds = {
        name: checkpoint.form if len(shape) > 1 or checkpoint.form != "Q8_0" else "F32"
        for name, shape in checkpoint.shapes.items()
    }
    end = 0
    for name, shape in checkpoint.shapes.items():
        sides = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        header += text(_gguf_name(name)) + sides
        header += struct.pack("<IQ", GGUF_KINDS[kinds[name]], end)
        nbytes = int(math.prod(shape) * _BITS[kinds[name]]) // 8
        end += -(-nbytes // GGUF_ALIGNMENT) * GGUF_ALIGNMENT
    with path.open("wb") as file:
        file.write(header + bytes(-len(header) % GGUF_ALIGNMENT))
        for name in checkpoint.shapes:
            weights = _as(kinds[name], _weights(checkpoint, name))
            file.write(weights + bytes(-len(weights) % GGUF_ALIGNMENT))


def _gguf_name(name: str) -> str:
    for there, here in GGUF_NAMES.items():
        name = name.replace(there, here)
    return name


_BITS: Final = {"F32": 32, "F16": 16, "BF16": 16, "Q8_0": 8.5}
"""Bits of an element."""


def _as(kind: str, weights: bytes) -> bytes:
    """Return weights of BF16 as another kind of GGUF's."""
    if kind == "BF16":
        return weights
    values = (np.frombuffer(weights, "<u2").astype(np.uint32) << 16).view(np.float32)
    if kind == "F32":
        return values.tobytes()
    if kind == "F16":
        return values.astype("<f2").tobytes()
    blocks = values.reshape(-1, 32)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    codes = np.round(blocks / np.maximum(scales, np.float32(1e-30))).astype(np.int8)
    made = np.concatenate([scales.astype("<f2").view(np.int8), codes], axis=1)
    return made.tobytes()


def _write_shard(checkpoint: Checkpoint, names: list[str], path: Path) -> None:
    # By hand, because `safetensors` wants all tensors of a file in memory.
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        shape = checkpoint.shapes[name]
        start, end = end, end + math.prod(shape) * BF16
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for name in names:
            file.write(_weights(checkpoint, name))


def _config(model_type: str, width: int) -> dict[str, Any]:
    heads = max(2, width // 128)
    return {
        "architectures": [{"llama": "LlamaForCausalLM"}.get(model_type, "Qwen3MoeForCausalLM")],
        "head_dim": width // heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "max_position_embeddings": 2048,
        "model_type": model_type,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 32000 if width > 256 else 256,
    }


def _grown(
    config: dict[str, Any], nbytes: int, layer_shapes: Callable[[str], Shapes]
) -> Checkpoint:
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    keys = width * config["num_key_value_heads"] // config["num_attention_heads"]
    shapes: Shapes = {
        "model.embed_tokens.weight": (vocabulary, width),
        "lm_head.weight": (vocabulary, width),
        "model.norm.weight": (width,),
    }
    for number in count():
        layer = f"model.layers.{number}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (width,),
            f"{layer}.post_attention_layernorm.weight": (width,),
            f"{layer}.self_attn.q_proj.weight": (width, width),
            f"{layer}.self_attn.k_proj.weight": (keys, width),
            f"{layer}.self_attn.v_proj.weight": (keys, width),
            f"{layer}.self_attn.o_proj.weight": (width, width),
            **layer_shapes(layer),
        }
        grown = Checkpoint(config | {"num_hidden_layers": number + 1}, shapes)
        if grown.nbytes >= nbytes:
            return grown
    raise AssertionError


def _mlp(prefix: str, inner: int, width: int) -> Shapes:
    return {
        f"{prefix}.gate_proj.weight": (inner, width),
        f"{prefix}.up_proj.weight": (inner, width),
        f"{prefix}.down_proj.weight": (width, inner),
    }


def _weights(checkpoint: Checkpoint, name: str) -> bytes:
    seed = [zlib.crc32(name.encode()), name in checkpoint.changed]
    random = np.random.Generator(np.random.SFC64(seed))
    shape = checkpoint.shapes[name]
    weights = random.standard_normal(shape, np.float32) * np.float32(0.02)
    return (weights.view(np.uint32) >> 16).astype(np.uint16).tobytes()


_TOKENIZER: Final = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    # mistral.rs asks for one, and knows those of bytes.
    "decoder": {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    },
    "model": {"type": "BPE", "vocab": VOCABULARY, "merges": []},
}


def main() -> None:
    """Write one checkpoint."""
    model, directory, amount = sys.argv[1:]
    write(MODELS[model](int(amount)), Path(directory))


if __name__ == "__main__":
    main()
