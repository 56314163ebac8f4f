"""Write small checkpoints with the programs that define GPTQ, AWQ and bitsandbytes.

    VENV/bin/python tests/zoo/make_packed.py DIR [--only NAME] [--fixtures DIR]

Needs an environment of its own with gptqmodel 7.7.0, autoawq 0.2.9 and auto-gptq 0.7.1 (of
which only modules of linear layers are used), bitsandbytes 0.50.2, transformers and torch; all
run on a CPU, with GPTQMODEL_CPU_WORKERS=2.

`DIR/golden.json` has the SHA-256 of each weight as the program that wrote it dequantizes it,
after loading the checkpoint again, and the dtype that it has then. `--fixtures` takes two
layers of some of them, for `fixtures/packed`. tests/zoo/check_packed.py compares.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch
import transformers

# Beside this file: sources of the writers may have packages named `tests`.
from packed_modules import FOR_AWQ, Golden, autoawq, autogptq, base, digest
from safetensors.torch import load_file, save_file

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


MAKERS: dict[str, Callable[[Path, Path], Golden]] = {
    **{name: gptqmodel(options) for name, options in GPTQ.items()},
    **{name: gptqmodel(options) for name, options in AWQ.items()},
    **{f"autogptq-{bits}": autogptq(bits) for bits in (2, 3, 4, 8)},
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
