"""Layers packed by the modules of AutoGPTQ and AutoAWQ, and the model that all pack."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from collections.abc import Callable, Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

SHAPE = {
    "vocab_size": 32,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 64,
    "attention_bias": True,
    "tie_word_embeddings": False,
}
FOR_AWQ = {"intermediate_size": 128, "num_key_value_heads": 2}
"""GPTQModel searches for AWQ's clipping in 64 rows at a time."""
DTYPES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}
Golden = dict[str, list[str]]


def base(
    directory: Path, dtype: torch.dtype = torch.float16, sizes: Mapping[str, int] | None = None
) -> Path:
    """Write the model that is quantized."""
    sizes = sizes or {}
    target = directory / "-".join(["base", DTYPES[dtype], *map(str, sizes.values())])
    if not target.exists():
        torch.manual_seed(11)
        config = transformers.LlamaConfig(**SHAPE | sizes)
        model = transformers.LlamaForCausalLM(config).to(dtype)
        for name, tensor in model.state_dict().items():
            if name.endswith("bias"):
                tensor.copy_(torch.randn(tensor.shape))
        model.save_pretrained(target)
        import tokenizers

        words = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, 32)}
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "<pad>")),
            pad_token="<pad>",
            bos_token="<s>",
            eos_token="</s>",
        ).save_pretrained(target)
    return target


def autogptq(bits: int) -> Callable[[Path, Path], Golden]:
    """Pack with AutoGPTQ's module, whose forward pass of the identity is its weights."""

    def make(work: Path, target: Path) -> Golden:
        (root,) = find_spec("auto_gptq").submodule_search_locations
        # The package imports what is gone of transformers.
        place = Path(root, "nn_modules", "qlinear", "qlinear_cuda_old.py")
        spec = spec_from_file_location("qlinear_cuda_old", place)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        made: dict[str, torch.Tensor] = {}
        golden: Golden = {}
        size, most = 32, 2**bits - 1
        for name, tensor in load_file(base(work) / "model.safetensors").items():
            if not name.endswith("_proj.weight"):
                made[name] = tensor
                continue
            rows, columns = tensor.shape
            layer = torch.nn.Linear(columns, rows, bias=False).half()
            layer.weight.data = tensor
            groups = tensor.reshape(rows, -1, size).float()
            scales = ((groups.amax(2) - groups.amin(2)) / most * 1.02).half().float()
            # Zero points of 0 spill into their neighbours.
            zeros = (-groups.amin(2) / scales).round().clamp(1, most)
            packed = module.QuantLinear(
                bits, size, columns, rows, False, weight_dtype=torch.float16
            )
            packed.pack(layer, scales, zeros, None)
            stem = name.removesuffix(".weight")
            for part in ("qweight", "qzeros", "scales", "g_idx"):
                made[f"{stem}.{part}"] = getattr(packed, part).contiguous()
            values = packed.eval()(torch.eye(columns, dtype=torch.float16))
            golden[name] = digest(values.T.half())
        target.mkdir()
        save_file(made, target / "model.safetensors", {"format": "pt"})
        (target / "config.json").write_text("{}")
        said = {"bits": bits, "group_size": size, "desc_act": False, "sym": False}
        (target / "quantize_config.json").write_text(json.dumps(said))
        return golden

    return make


def autoawq(version: str) -> Callable[[Path, Path], Golden]:
    """Pack with AutoAWQ's modules, whose own values need a GPU: these are its formula's."""

    def make(work: Path, target: Path) -> Golden:
        if "awq" not in sys.modules:
            # Of its other modules, some need what transformers no longer has.
            package = types.ModuleType("awq")
            package.__path__ = list(find_spec("awq").submodule_search_locations)
            sys.modules["awq"] = package
        from awq.modules.linear import gemm, gemv
        from awq.utils.packing_utils import dequantize_gemm

        source = base(work)
        stored = load_file(source / "model.safetensors")
        made: dict[str, torch.Tensor] = {}
        golden: Golden = {}
        size = 32
        torch.manual_seed(5)
        for name, tensor in stored.items():
            if not name.endswith("_proj.weight"):
                made[name] = tensor
                continue
            layer = torch.nn.Linear(*tensor.shape[::-1], bias=False)
            layer.weight.data = tensor
            groups = tensor.reshape(len(tensor), -1, size).float()
            # A little more than needed: a code of 16 would spill into its neighbour.
            scales = ((groups.amax(2) - groups.amin(2)) / 14.5).half()
            zeros = (-groups.amin(2) / scales).round().clamp(0, 15)
            stem = name.removesuffix(".weight")
            of_gemm = gemm.WQLinear_GEMM.from_linear(
                layer, 4, size, scales=scales.T.contiguous(), zeros=zeros.T.contiguous()
            )
            module = of_gemm
            if version == "gemv":
                module = gemv.WQLinear_GEMV.from_linear(
                    layer, 4, size, scales=scales, zeros=zeros
                )
            for part in ("qweight", "qzeros", "scales"):
                made[f"{stem}.{part}"] = getattr(module, part).contiguous()
            # Both are of the same codes, scales and zero points.
            arrays = of_gemm.qweight, of_gemm.qzeros, of_gemm.scales
            golden[name] = digest(dequantize_gemm(*arrays, 4, size).T)
        target.mkdir()
        save_file(made, target / "model.safetensors", {"format": "pt"})
        config = json.loads((source / "config.json").read_text())
        config["quantization_config"] = {
            "quant_method": "awq",
            "zero_point": True,
            "group_size": size,
            "bits": 4,
            "version": version,
            "modules_to_not_convert": None,
        }
        (target / "config.json").write_text(json.dumps(config, indent=2))
        return golden

    return make


def digest(values: torch.Tensor) -> list[str]:
    """Return the dtype of values, and the SHA-256 of their bytes."""
    data = values.detach().contiguous().view(torch.uint8).numpy().tobytes()
    return [DTYPES[values.dtype], hashlib.sha256(data).hexdigest()]
