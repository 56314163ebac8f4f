"""llama.cpp's own converter, on models of the zoo: what GGUF files are made of.

It is in the source distribution of llama-cpp-python, in vendor/llama.cpp:

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36

It needs torch, transformers, sentencepiece and protobuf.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import zlib
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

import torch
import transformers
from safetensors.torch import load_file, save_file

ABSENT = {
    # Keys that the converter wants, and transformers 5 no longer writes.
    "gpt2": {"n_ctx": 64},
    "gpt_neox": {"rotary_pct": 0.25},
    "cohere2": {"rotary_pct": 0.25},
    "bamba": {"attn_rotary_emb": 4},
}
EARLIER = {
    # Words of transformers 4, which the converter knows, for those of 5.
    "granitemoehybrid": {"linear_attention": "mamba", "full_attention": "attention"},
    "nemotron_h": {"linear_attention": "mamba", "full_attention": "attention"},
}


def _kimi_linear(found: dict[str, Any]) -> dict[str, Any]:
    kinds = found["layer_types"]
    numbers = {
        kind: [number for number, one in enumerate(kinds, 1) if one == kind]
        for kind in ("full_attention", "linear_attention")
    }
    linear = {
        "full_attn_layers": numbers["full_attention"],
        "kda_layers": numbers["linear_attention"],
        "short_conv_kernel_size": found["linear_conv_kernel_dim"],
        "head_dim": found["linear_head_dim"],
        "num_heads": found["linear_num_heads"],
    }
    dense = found["mlp_layer_types"].count("dense")
    return {
        "linear_attn_config": linear,
        "first_k_dense_replace": dense,
        "max_position_embeddings": found["model_max_length"],
    }


def _mimo_v2_flash(found: dict[str, Any]) -> dict[str, Any]:
    heads = found["num_key_value_heads"]
    whole, local = (found["rope_parameters"][f"{one}_attention"] for one in ("full", "sliding"))
    return {
        "hybrid_layer_pattern": [int(one[0] == "s") for one in found["layer_types"]],
        "sliding_window": found["sliding_window"] - 1,
        "swa_head_dim": found["head_dim"],
        "swa_v_head_dim": found["v_head_dim"],
        "swa_num_attention_heads": found["num_attention_heads"],
        "swa_num_key_value_heads": 2 * heads,
        "rope_parameters": {},
        "rope_theta": whole["rope_theta"],
        "swa_rope_theta": local["rope_theta"],
        "partial_rotary_factor": whole["partial_rotary_factor"],
        "topk_method": "noaux_tc",
        "layernorm_epsilon": found["rms_norm_eps"],
    }


PUBLISHED = {"kimi_linear": _kimi_linear, "mimo_v2_flash": _mimo_v2_flash}
"""What config.json of published models says, which is not what transformers writes."""
_PER_LAYER = ("moe_topk", "num_shared_expert", "moe_intermediate_size")


class Converter:
    """The converter, without its tokenizers: models of the zoo have none that it knows."""

    def __init__(self, llama_cpp: Path) -> None:
        """Load it from a directory with convert_hf_to_gguf.py."""
        sys.path[:0] = [str(llama_cpp / "gguf-py"), str(llama_cpp)]
        import conversion
        import gguf
        from conversion.base import ModelBase

        logging.disable(logging.WARNING)
        self._conversion, self._gguf, self._base = conversion, gguf, ModelBase
        conversion.load_all_models()
        kinds = ModelBase._model_classes[conversion.ModelType.TEXT]
        for cls in set(kinds.values()):
            cls.set_vocab = lambda _: None
            cls.no_mtp = True
        read = ModelBase.load_hparams

        def load_hparams(*arguments, **named):
            found = read(*arguments, **named)
            kind = found.get("model_type")
            found = ABSENT.get(kind, {}) | found
            if kind == "hunyuan_v1_moe":
                for key in _PER_LAYER:
                    value = found.get(key) or 1
                    count = found["num_hidden_layers"]
                    found[key] = [value] * count if isinstance(value, int) else value
            if kind in PUBLISHED:
                found = found | PUBLISHED[kind](found)
            words = EARLIER.get(kind, {})
            for key in {"layer_types", "layers_block_type"} & found.keys():
                found[key] = [words.get(one, one) for one in found[key] or ()]
            if kind == "dbrx":
                found["attn_config"]["clip_qkv"] = found["attn_config"].get("clip_qkv") or 8.0
            return found

        ModelBase.load_hparams = staticmethod(load_hparams)

    def convert(self, directory: Path, kind: str) -> Path:
        """Write `KIND.gguf` beside a checkpoint: `f32`, `f16`, `bf16` or `q8_0`."""
        path = directory / f"{kind}.gguf"
        types = self._gguf.LlamaFileType
        number = types.ALL_F32 if kind == "f32" else types[f"MOSTLY_{kind.upper()}"]
        hparams = self._base.load_hparams(directory, False)
        text = self._conversion.ModelType.TEXT
        name = self._conversion.get_model_architecture(hparams, text)
        cls = self._conversion.get_model_class(name)
        # Some of its classes read config.json themselves.
        more = {"hparams": hparams} if hparams["model_type"] in EARLIER else {}
        with torch.inference_mode():
            cls(directory, number, path, model_name=directory.name, **more).write()
        return path

    def rounded(self, values: Any, kind: str) -> Any:
        """Return what numbers of F32 are after a way through a type of GGML."""
        number = self._gguf.GGMLQuantizationType[kind]
        quantized = self._gguf.quants.quantize(values, number)
        return self._gguf.quants.dequantize(quantized, number)


_PUBLISHED = {"MptForCausalLM": "MPTForCausalLM", "PhimoeForCausalLM": "PhiMoEForCausalLM"}
"""Classes that the converter knows by the name in published models alone."""


def save(name: str, architecture: str, config: dict[str, Any], directory: Path) -> None:
    """Write a checkpoint of random weights, all of which both F16 and BF16 hold exactly."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(zlib.crc32(name.encode()))
    cls = getattr(transformers, architecture)
    model = cls(cls.config_class(**config))
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                # Multiples of 1/64 up to 2: eight bits are enough.
                tensor.copy_((torch.randn(tensor.shape) * 16).round().clamp(-127, 127) / 64)
    model.to(torch.bfloat16).save_pretrained(directory)
    if architecture in _PUBLISHED:
        path = directory / "config.json"
        path.write_text(path.read_text().replace(architecture, _PUBLISHED[architecture]))
    if architecture == "KimiLinearForCausalLM":
        # Published ones call the dense blocks as all others do.
        path = directory / "model.safetensors"
        tensors = {
            key.replace("block_sparse_moe", "mlp") if ".0.block" in key else key: tensor
            for key, tensor in load_file(path).items()
        }
        save_file(tensors, path, metadata={"format": "pt"})
    # One converter asks whether there is one, another what kind of model it has.
    kind = "WordPiece" if "bert" in name else "BPE"
    words = {
        "model": {
            "vocab": {str(n): n for n in range(config.get("vocab_size", 1))},
            "type": kind,
        }
    }
    (directory / "tokenizer.json").write_text(json.dumps({**words, "added_tokens": []}))
