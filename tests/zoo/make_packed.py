"""Write small checkpoints with the programs that define GPTQ, AWQ and bitsandbytes.

    VENV/bin/python tests/zoo/make_packed.py DIR [--only NAME] [--fixtures DIR]

Needs an environment of its own with gptqmodel 7.7.0, autoawq 0.2.9 (of which only the modules
of linear layers are used), bitsandbytes 0.50.2, transformers and torch; all run on a CPU, with
GPTQMODEL_CPU_WORKERS=2. `DIR/golden.json` has the SHA-256 of each weight as the program that
wrote it dequantizes it, after loading the checkpoint again, and the dtype that it has then.
`--fixtures` takes two layers of some of them, for `fixtures/packed`. tests/zoo/check_packed.py
compares.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import types
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

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

GPTQ: dict[str, dict[str, Any]] = {
    "gptq-4": {"bits": 4, "group_size": 32, "sym": True},
    "gptq-4-asym": {"bits": 4, "group_size": 16, "sym": False},
    "gptq-4-v2": {"bits": 4, "group_size": 32, "sym": False, "format": "gptq_v2"},
    "gptq-4-act-order": {
        "bits": 4, "group_size": 32, "sym": False, "desc_act": True, "act_group_aware": False,
    },
    "gptq-2-whole": {
        "bits": 2, "group_size": -1, "sym": False, "act_group_aware": False,
    },
    "gptq-3": {"bits": 3, "group_size": 32, "sym": True},
    "gptq-3-asym": {"bits": 3, "group_size": 32, "sym": False},
    "gptq-3-planar": {"bits": 3, "group_size": 32, "sym": False, "format": "gptq_p"},
    "gptq-5": {"bits": 5, "group_size": 32, "sym": True},
    "gptq-6": {"bits": 6, "group_size": 32, "sym": False},
    "gptq-7": {"bits": 7, "group_size": 32, "sym": True},
    "gptq-8": {"bits": 8, "group_size": 64, "sym": False},
    "gptq-dynamic": {
        "bits": 4, "group_size": 32, "sym": True,
        "dynamic": {
            r"-:.*o_proj$": {},
            r".*\.down_proj": {"bits": 8, "group_size": 16},
            r"+:.*[kv]_proj": {"bits": 2},
        },
    },
}  # fmt: skip
AWQ: dict[str, dict[str, Any]] = {
    f"awq-{bits}": {"bits": bits, "group_size": 32, "method": "awq", "format": "gemm"}
    for bits in range(2, 9)
}
BNB: dict[str, dict[str, Any]] = {
    "nf4": {"bnb_4bit_quant_type": "nf4"},
    "nf4-nested": {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    "fp4": {"bnb_4bit_quant_type": "fp4"},
    "fp4-nested": {"bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": True},
    "nf4-bf16-storage": {
        "bnb_4bit_quant_type": "nf4", "bnb_4bit_quant_storage": torch.bfloat16,
    },
}  # fmt: skip


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


def gptqmodel(options: dict[str, Any]) -> Callable[[Path, Path], Golden]:
    """Quantize with GPTQModel."""

    def make(work: Path, target: Path) -> Golden:
        from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
        from gptqmodel.nn_modules.qlinear import PackableQuantLinear
        from gptqmodel.quantization.awq.utils.packing_utils import (
            dequantize_gemm,
        )

        torch.manual_seed(1)
        samples = [
            {"input_ids": torch.randint(3, 32, (48,)).tolist(), "attention_mask": [1] * 48}
            for _ in range(8)
        ]
        config = QuantizeConfig(**options, offload_to_disk=False)
        is_awq = options.get("method") == "awq"
        source = base(work, sizes=FOR_AWQ if is_awq else None)
        model = GPTQModel.load(str(source), config)
        model.quantize(samples, batch_size=1)
        model.save(str(target))
        backend = BACKEND.AWQ_TORCH if is_awq else BACKEND.GPTQ_TORCH
        loaded = GPTQModel.load(str(target), backend=backend, device="cpu", dtype=torch.float16)
        golden: Golden = {}
        for name, module in loaded.model.named_modules():
            if not hasattr(module, "qweight"):
                continue
            if is_awq:
                values = dequantize_gemm(
                    module.qweight, module.qzeros, module.scales, module.bits, module.group_size
                )
            else:
                values = PackableQuantLinear.dequantize_weight(module)
            golden[f"{name}.weight"] = digest(values.detach().T)
        return golden

    return make


def bitsandbytes(options: dict[str, Any], dtype: torch.dtype) -> Callable[[Path, Path], Golden]:
    """Quantize with bitsandbytes, through transformers."""

    def make(work: Path, target: Path) -> Golden:
        from bitsandbytes import functional
        from bitsandbytes.backends.default import ops

        is_4bit = "load_in_8bit" not in options
        config = transformers.BitsAndBytesConfig(**options, load_in_4bit=is_4bit)
        for path in (base(work, dtype), target):
            # The second time what was saved is loaded.
            given = {"quantization_config": config} if path != target else {}
            model = transformers.AutoModelForCausalLM.from_pretrained(
                path, device_map="cpu", dtype=dtype, **given
            )
            if path != target:
                model.save_pretrained(target)
        golden: Golden = {}
        for name, module in model.named_modules():
            weight = getattr(module, "weight", None)
            if getattr(weight, "quant_state", None) is not None:
                state, data = weight.quant_state, weight.data.view(torch.uint8).reshape(-1)
                absmax = state.absmax
                if state.nested:
                    absmax = functional.dequantize_blockwise(state.absmax, state.state2)
                    absmax += state.offset
                # Not `dequantize_4bit`, whose kernel for CPUs with AVX-512 is wrong where a
                # block ends within a row: by 2.0 for 64 x 96 random values, and this by 0.4.
                values = ops._dequantize_4bit_compute(
                    data, absmax, state.code, state.blocksize, list(state.shape), state.dtype
                )
            elif getattr(weight, "SCB", None) is not None:
                values = functional.int8_vectorwise_dequant(weight.data, weight.SCB)
            else:
                continue
            golden[f"{name}.weight"] = digest(values)
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


MAKERS: dict[str, Callable[[Path, Path], Golden]] = {
    **{name: gptqmodel(options) for name, options in GPTQ.items()},
    **{name: gptqmodel(options) for name, options in AWQ.items()},
    "autoawq-gemm": autoawq("gemm"),
    "autoawq-gemv": autoawq("gemv"),
    **{name: bitsandbytes(options, torch.bfloat16) for name, options in BNB.items()},
    "nf4-f16": bitsandbytes(BNB["nf4"], torch.float16),
    "nf4-f32": bitsandbytes(BNB["nf4-nested"], torch.float32),
    "llm-int8": bitsandbytes({"load_in_8bit": True}, torch.float16),
}


FIXTURES = (
    "gptq-2-whole",
    "gptq-3-asym",
    "gptq-3-planar",
    "gptq-4",
    "gptq-4-act-order",
    "gptq-4-v2",
    "gptq-6",
    "gptq-7",
    "gptq-8",
    "gptq-dynamic",
    "awq-3",
    "awq-4",
    "autoawq-gemv",
    "nf4",
    "nf4-nested",
    "fp4",
    "nf4-bf16-storage",
    "llm-int8",
)
LAYERS = ("model.layers.0.mlp.down_proj.", "model.layers.0.self_attn.k_proj.")


def take_fixtures(made: Path, target: Path) -> None:
    """Copy two layers of some checkpoints, a norm, and what the golden file says of them."""
    golden = json.loads((made / "golden.json").read_text())
    kept: dict[str, Golden] = {}
    for name in FIXTURES:
        directory = target / name
        directory.mkdir(parents=True, exist_ok=True)
        stored = load_file(made / name / "model.safetensors")
        some = {
            key: tensor
            for key, tensor in stored.items()
            if key.startswith(LAYERS) or key == "model.norm.weight"
        }
        save_file(some, directory / "model.safetensors", {"format": "pt"})
        config = json.loads((made / name / "config.json").read_text())
        block = config["quantization_config"]
        for key in ("meta", "meta_payload"):
            block.pop(key, None)  # paths of the machine
        text = json.dumps(
            {"architectures": config["architectures"], "quantization_config": block}
        )
        (directory / "config.json").write_text(text + "\n")
        kept[name] = {key: one for key, one in golden[name].items() if key.startswith(LAYERS)}
    text = json.dumps(kept, indent=1, sort_keys=True)
    (target / "golden.json").write_text(text + "\n")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--only", choices=sorted(MAKERS), metavar="NAME", action="append")
    parser.add_argument("--fixtures", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.fixtures is not None:
        take_fixtures(arguments.directory, arguments.fixtures)
        return 0
    arguments.directory.mkdir(parents=True, exist_ok=True)
    record = arguments.directory / "golden.json"
    golden = json.loads(record.read_text()) if record.exists() else {}
    work = arguments.directory.with_name(f"{arguments.directory.name}-work")
    for name in arguments.only or MAKERS:
        target = arguments.directory / name
        shutil.rmtree(target, ignore_errors=True)
        golden[name] = MAKERS[name](work, target)
        for path in target.iterdir():
            if path.name not in {"config.json", "model.safetensors", "quantize_config.json"}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        record.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
