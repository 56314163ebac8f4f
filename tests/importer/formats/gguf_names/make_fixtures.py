"""Write the GGUF files of this directory, and what they were made of.

    PYTHON tests/importer/formats/gguf_names/make_fixtures.py LLAMA_CPP

PYTHON has torch, transformers and sentencepiece; LLAMA_CPP is the directory of llama.cpp's
converter (tests/zoo/gguf_converter.py says where from). Committed are those of the llama.cpp in
llama-cpp-python 0.3.36, with transformers 5.23.0 and torch 2.13.0.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import numpy as np
from safetensors.torch import load_file

from tests.zoo.gguf_converter import Converter, save

HERE = Path(__file__).resolve().parent / "fixtures"

SMALL = {
    "vocab_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
MLA = {
    **SMALL,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "head_dim": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 32,
    "v_head_dim": 8,
    "n_group": 2,
    "topk_group": 1,
}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
LINEAR = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
PARTIAL = {"rope_type": "default", "partial_rotary_factor": 1 / 3}
MODELS = {
    "llama": ("LlamaForCausalLM", SMALL | {"rope_parameters": LLAMA3}, "q8_0"),
    "mixtral": ("MixtralForCausalLM", SMALL | LOCAL, "q8_0"),
    "gemma2": ("Gemma2ForCausalLM", SMALL, "f16"),
    "deepseek": ("DeepseekV3ForCausalLM", MLA, "q8_0"),
    "gpt-oss": ("GptOssForCausalLM", SMALL | LOCAL, "f16"),
    "gpt2": (
        "GPT2LMHeadModel",
        {"vocab_size": 32, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64},
        "q8_0",
    ),
    "falcon": (
        "FalconForCausalLM",
        {
            "vocab_size": 32,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_kv_heads": 2,
            "new_decoder_architecture": True,
        },
        "q8_0",
    ),
    "granite": (
        "GraniteMoeSharedForCausalLM",
        SMALL | LOCAL | {"shared_intermediate_size": 16},
        "q8_0",
    ),
    "qwen3.5": (
        "Qwen3_5ForCausalLM",
        SMALL | LINEAR | {"layer_types": ["linear_attention"], "num_hidden_layers": 1},
        "f16",
    ),
    "mamba2": (
        "Mamba2ForCausalLM",
        {
            "vocab_size": 32,
            "hidden_size": 32,
            "state_size": 4,
            "num_hidden_layers": 1,
            "num_heads": 8,
            "head_dim": 8,
            "n_groups": 2,
        },
        "f16",
    ),
    "bert": ("BertModel", SMALL, "f16"),
    "apertus": ("ApertusForCausalLM", SMALL, "q8_0"),
    "gemma4": (
        "Gemma4ForCausalLM",
        SMALL
        | {
            "num_hidden_layers": 4,
            "global_head_dim": 16,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": 32,
            "use_double_wide_mlp": True,
        },
        "f16",
    ),
    "mimo2": (
        "MiMoV2FlashForCausalLM",
        SMALL
        | {
            "num_hidden_layers": 2,
            "head_dim": 12,
            "v_head_dim": 8,
            "moe_intermediate_size": 16,
            "n_routed_experts": 2,
            "num_experts_per_tok": 1,
            "layer_types": ["full_attention", "sliding_attention"],
            "rope_parameters": {
                kind: {
                    "rope_type": "default",
                    "rope_theta": theta,
                    "partial_rotary_factor": 1 / 3,
                }
                for kind, theta in (("full_attention", 5e6), ("sliding_attention", 1e4))
            },
        },
        "f16",
    ),
    "kimi-linear": (
        "KimiLinearForCausalLM",
        SMALL
        | {
            "num_hidden_layers": 2,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 16,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "kv_lora_rank": 32,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_head_dim": 8,
            "linear_num_heads": 4,
        },
        "f16",
    ),
}


def main() -> int:
    """Write them all."""
    converter = Converter(Path(sys.argv[1]))
    HERE.mkdir(exist_ok=True)
    expected = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (architecture, config, kind) in MODELS.items():
            directory = Path(scratch) / name
            save(name, architecture, config, directory)
            shutil.copyfile(converter.convert(directory, kind), HERE / f"{name}.gguf")
            expected[name] = {
                "config": json.loads((directory / "config.json").read_text()),
                "kind": kind,
                "tensors": dict(sorted(_tensors(directory, kind, converter))),
            }
    text = json.dumps(expected, indent=1, sort_keys=True)
    (HERE / "expected.json").write_text(f"{text}\n")
    return 0


def _tensors(directory: Path, kind: str, converter: Converter):
    """Yield each tensor's shape and digests of its values, exact and rounded row by row."""
    for file in directory.glob("*.safetensors"):
        for name, tensor in load_file(file).items():
            values = np.ascontiguousarray(tensor.float().numpy())
            digests = [_digest(values)]
            if kind == "q8_0":
                digests += [_digest(one) for one in _rounded(name, values, converter)]
            yield name, [list(tensor.shape), *digests]


def _rounded(name: str, values, converter: Converter):
    """Yield the values after a way through Q8_0, in the order in which a GGUF has them."""
    if values.ndim > 1 and values.shape[-1] % 32 == 0:
        yield converter.rounded(values, "Q8_0")
    if values.ndim > 1 and values.shape[-2] % 32 == 0:
        turned = np.ascontiguousarray(values.swapaxes(-1, -2))
        yield converter.rounded(turned, "Q8_0").swapaxes(-1, -2)
    if name.endswith("kv_b_proj.weight"):
        heads = values.reshape(MLA["num_attention_heads"], -1, values.shape[-1])
        k, v = np.split(heads, [MLA["qk_nope_head_dim"]], axis=1)
        turned = np.ascontiguousarray(k.swapaxes(1, 2))
        k = converter.rounded(turned, "Q8_0").swapaxes(1, 2)
        v = converter.rounded(np.ascontiguousarray(v), "Q8_0")
        yield np.concatenate([k, v], axis=1).reshape(values.shape)


def _digest(values) -> str:
    # Minus zero is zero: what a converter adds and we subtract again has no sign.
    data = np.ascontiguousarray(values + np.float32(0)).tobytes()
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    raise SystemExit(main())
