"""Write small checkpoints with the programs that quantize: compressed-tensors and ModelOpt.

    python tests/zoo/make_scaled.py DIRECTORY [HIDDEN]

Beside each model lies `expected.json`: what the program itself decodes each weight to, as
dtype, shape and SHA-256. With a HIDDEN of 32 these are the fixtures in `fixtures/quantized`,
written by compressed-tensors 0.20.0, ModelOpt 0.47.0 and transformers 5.23.0, torch 2.13.0.
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import warnings
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

FIXED = 1


def tiny(hidden):
    """A llama of one layer, with the weights of a seed."""
    torch.manual_seed(FIXED)
    config = transformers.LlamaConfig(
        hidden_size=hidden,
        intermediate_size=hidden * 2,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=32,
        tie_word_embeddings=True,
        architectures=["LlamaForCausalLM"],
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()


def note(directory, values):
    """Write what a program decodes its weights to."""
    names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
    noted = {
        name: [
            names[value.dtype],
            list(value.shape),
            hashlib.sha256(
                value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
            ).hexdigest(),
        ]
        for name, value in sorted(values.items())
    }
    (directory / "expected.json").write_text(json.dumps(noted, indent=1) + "\n")


# compressed-tensors


def weights(bits, kind="int", **facts):
    return {"num_bits": bits, "type": kind, "symmetric": True, "dynamic": False, **facts}


def one(weight, **facts):
    return {"group_0": {"targets": ["Linear"], "weights": weight, **facts}}


def group(bits, size=32, **facts):
    return one(weights(bits, strategy="group", group_size=size, **facts))


FP8 = weights(8, "float")
DYNAMIC = weights(8, "float", strategy="token", dynamic=True)
COMPRESSED = {
    **{f"ct-int{bits}": ("pack-quantized", group(bits)) for bits in (2, 3, 5, 6, 7, 8)},
    "ct-int4-asymmetric": ("pack-quantized", group(4, symmetric=False)),
    "ct-int3-asymmetric": ("pack-quantized", group(3, symmetric=False)),
    "ct-int4-channel": ("pack-quantized", one(weights(4, strategy="channel"))),
    "ct-int8-bytes": (
        "int-quantized",
        one(
            weights(8, strategy="channel"),
            input_activations=weights(8, strategy="token", dynamic=True),
        ),
    ),
    "ct-fp8-channel": (
        "float-quantized",
        one(weights(8, "float", strategy="channel"), input_activations=DYNAMIC),
    ),
    "ct-fp8-static": (
        "float-quantized",
        one(
            weights(8, "float", strategy="tensor"),
            input_activations=weights(8, "float", strategy="tensor"),
        ),
    ),
    "ct-fp8-block": (
        "float-quantized",
        one(
            weights(8, "float", strategy="block", block_structure=[40, 48]),
            input_activations=weights(
                8, "float", strategy="group", group_size=32, dynamic=True
            ),
        ),
    ),
    "ct-nvfp4": (
        "nvfp4-pack-quantized",
        one(
            weights(
                4,
                "float",
                strategy="tensor_group",
                group_size=16,
                scale_dtype="torch.float8_e4m3fn",
                zp_dtype="torch.float8_e4m3fn",
            )
        ),
    ),
    "ct-mxfp4": (
        "mxfp4-pack-quantized",
        one(
            weights(4, "float", strategy="group", group_size=32, scale_dtype="torch.uint8"),
        ),
    ),
    "ct-mxfp8": (
        "mxfp8-quantized",
        one(
            weights(8, "float", strategy="group", group_size=32, scale_dtype="torch.uint8"),
        ),
    ),
    "ct-mixed": (
        "mixed-precision",
        {
            "group_0": {
                "targets": ["re:.*mlp.*"],
                "weights": weights(4, strategy="group", group_size=32),
                "format": "pack-quantized",
            },
            "group_1": {
                "targets": ["re:.*self_attn.*"],
                "weights": weights(8, "float", strategy="channel"),
                "input_activations": DYNAMIC,
                "format": "float-quantized",
            },
        },
    ),
}


def calibrate(model):
    """Set scales and zero points from the weights, as the least and greatest values."""
    from compressed_tensors.quantization.utils import calculate_qparams

    for module in model.modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is None or scheme.weights is None:
            continue
        args, weight = scheme.weights, module.weight.data
        blocks = blocked(weight, args)
        low, high = blocks.amin(-1), blocks.amax(-1)
        whole = None
        if hasattr(module, "weight_global_scale"):
            whole = (448 * 6 / weight.abs().max().float()).reshape(1)
            module.weight_global_scale.data = whole
        scale, zero = calculate_qparams(low, high, args, global_scale=whole)
        shape = module.weight_scale.shape
        module.weight_scale.data = scale.reshape(shape).to(module.weight_scale.dtype)
        if getattr(module, "weight_zero_point", None) is not None:
            module.weight_zero_point.data = zero.reshape(shape).to(
                module.weight_zero_point.dtype
            )
        for name in ("input_scale", "input_global_scale"):
            if hasattr(module, name):
                getattr(module, name).data.fill_(0.02)


def blocked(weight, args):
    """Return the weight with the values that share a scale along the last dimension."""
    rows, columns = weight.shape
    match str(args.strategy).rpartition(".")[2].lower():
        case "tensor":
            return weight.reshape(1, -1)
        case "channel":
            return weight.reshape(rows, 1, columns)
        case "block":
            down, across = args.block_structure
            padded = torch.nn.functional.pad(weight, (0, -columns % across, 0, -rows % down))
            parts = padded.unflatten(0, (-1, down)).unflatten(2, (-1, across))
            return parts.transpose(1, 2).flatten(2)
        case _:
            return weight.reshape(rows, -1, args.group_size)


def compressed(directory, name, hidden):
    """Quantize with compressed-tensors, and decode with it."""
    from compressed_tensors.compressors import BaseCompressor, ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config

    form, groups = COMPRESSED[name]
    model = tiny(hidden)
    config = QuantizationConfig.model_validate(
        {"config_groups": groups, "ignore": ["lm_head"], "format": form}
    )
    apply_quantization_config(model, config)
    calibrate(model)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(directory)
    compressor.update_config(directory)
    found = {}
    for module_name, module in model.named_modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is not None and scheme.weights is not None:
            state = dict(module.named_parameters(recurse=False)) | dict(
                module.named_buffers(recurse=False)
            )
            kind = BaseCompressor.get_value_from_registry(scheme.format or form)
            plain = {key: value.data for key, value in state.items()}
            found[f"{module_name}.weight"] = kind.decompress(plain, scheme)["weight"]
    note(directory, found)


# ModelOpt

MODELOPT = {
    "mo-fp8": "FP8_DEFAULT_CFG",
    "mo-fp8-channel": "FP8_PER_CHANNEL_PER_TOKEN_CFG",
    "mo-fp8-block": "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG",
    "mo-nvfp4": "NVFP4_DEFAULT_CFG",
    "mo-w4a8-nvfp4": "W4A8_NVFP4_FP8_CFG",
    "mo-mxfp4": "W4A8_MXFP4_FP8_CFG",
    "mo-mxfp8": "MXFP8_DEFAULT_CFG",
    "mo-int8": "INT8_WEIGHT_ONLY_CFG",
    "mo-int8-smooth": "INT8_SMOOTHQUANT_CFG",
    "mo-int4": "INT4_AWQ_CFG",
    "mo-mixed": None,
}
EXPERTS = {
    "mo-fp8-experts": "FP8_DEFAULT_CFG",
    "mo-fp8-channel-experts": "FP8_PER_CHANNEL_PER_TOKEN_CFG",
    "mo-nvfp4-experts": "NVFP4_DEFAULT_CFG",
    "mo-w4a8-nvfp4-experts": "W4A8_NVFP4_FP8_CFG",
    "mo-mxfp4-experts": "W4A8_MXFP4_FP8_CFG",
    "mo-mxfp8-experts": "MXFP8_DEFAULT_CFG",
}
"""What ModelOpt writes of stacked experts; of the others it raises errors, or needs a GPU."""


def modelopt(directory, name, hidden):
    """Quantize with ModelOpt, and decode with it."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    if name == "mo-mixed":
        config = copy.deepcopy(mtq.NVFP4_MLP_ONLY_CFG)
        fp8 = copy.deepcopy(mtq.FP8_DEFAULT_CFG["quant_cfg"])
        if isinstance(fp8, list):
            weight = next(one for one in fp8 if "weight_quantizer" in one["quantizer_name"])
            given = next(one for one in fp8 if "input_quantizer" in one["quantizer_name"])
            config["quant_cfg"] += [
                {**weight, "quantizer_name": "*self_attn*weight_quantizer"},
                {**given, "quantizer_name": "*self_attn*input_quantizer"},
            ]
        else:
            config["quant_cfg"]["*self_attn*weight_quantizer"] = fp8["*weight_quantizer"]
            config["quant_cfg"]["*self_attn*input_quantizer"] = fp8["*input_quantizer"]
    else:
        config = copy.deepcopy(getattr(mtq, MODELOPT[name]))
        if name in {"mo-fp8-block", "mo-int4"}:
            config = smaller(config)
    model = tiny(hidden)
    inputs = torch.arange(16).reshape(2, 8)
    quantized = mtq.quantize(model, config, lambda one: one(inputs))
    with torch.inference_mode():
        export_hf_checkpoint(quantized, export_dir=directory)
    found = {}
    arrays = load_file(directory / "model.safetensors")
    for key, scale in arrays.items():
        if key.endswith(".weight_scale"):
            stem = key.removesuffix(".weight_scale")
            second = arrays.get(f"{stem}.weight_scale_2")
            values = dequantized(arrays[f"{stem}.weight"], scale, second)
            inputs = arrays.get(f"{stem}.pre_quant_scale")
            if inputs is not None:
                values = values * inputs.float()
            found[f"{stem}.weight"] = values
    note(directory, found)


def modelopt_experts(directory, name, hidden):
    """Quantize stacked experts with ModelOpt, and decode them expert by expert with it."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    torch.manual_seed(FIXED)
    config = transformers.Llama4TextConfig(
        hidden_size=hidden,
        intermediate_size=hidden,
        intermediate_size_mlp=hidden,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=hidden // 2,
        vocab_size=32,
        num_local_experts=3,
        interleave_moe_layer_step=1,
        architectures=["Llama4ForCausalLM"],
    )
    model = transformers.Llama4ForCausalLM(config).to(torch.bfloat16).eval()
    inputs = torch.arange(32).reshape(2, 16)
    settings = copy.deepcopy(getattr(mtq, EXPERTS[name]))
    quantized = mtq.quantize(model, settings, lambda one: one(inputs))
    with torch.inference_mode():
        export_hf_checkpoint(quantized, export_dir=directory)
    arrays, found = load_file(directory / "model.safetensors"), {}
    for key, scale in arrays.items():
        if key.endswith("_weight_scale"):
            stem = key.removesuffix("_weight_scale")
            second = arrays.get(f"{stem}_weight_scale_2")
            found[stem] = stacked(arrays[stem], scale, second)
    note(directory, found)


def stacked(weight, scale, second):
    """Return what ModelOpt's tensors decode the matrices of a stack to."""
    made = []
    for number, matrix in enumerate(weight):
        own = scale if scale.ndim == 0 else scale[number]
        if matrix.dtype == torch.uint8 and own.shape[-1] == matrix.shape[-1]:
            # Codes and scales of the transposed matrix, transposed: groups are of rows.
            made.append(dequantized(matrix.T.contiguous(), own.T.contiguous(), second).T)
        else:
            made.append(dequantized(matrix, own, second))
    return torch.stack(made)


def smaller(value):
    """Return a configuration with blocks of 32 for those of 128."""
    if isinstance(value, dict):
        return {key: smaller(one) for key, one in value.items()}
    if isinstance(value, list):
        return [smaller(one) for one in value]
    return 32 if value == 128 else value


def dequantized(weight, scale, second):
    """Return what ModelOpt's own tensors decode to, with all digits."""
    from modelopt.torch.quantization import qtensor

    rows, columns = weight.shape
    full = torch.Size((rows, columns))
    exact = torch.float32
    if second is not None:
        # Its table has 0 for the code of -0, which all others read as that.
        qtensor.nvfp4_tensor.e2m1_values[8] = -0.0
        full = torch.Size((rows, 2 * columns))
        size = 2 * columns // scale.shape[-1]
        made = qtensor.NVFP4QTensor(full, exact, weight)
        return made.dequantize(exact, scale=scale, double_scale=second, block_sizes={-1: size})
    if weight.dtype == torch.float8_e4m3fn and scale.dtype == torch.uint8:
        return qtensor.MXFP8QTensor(full, torch.bfloat16, weight).dequantize(scale=scale)
    if weight.dtype == torch.float8_e4m3fn:
        sizes = {}
        if scale.ndim == 4:
            scale = scale.reshape(scale.shape[0], scale.shape[2])
            sizes = {"block_sizes": {-1: columns // scale.shape[1], -2: rows // scale.shape[0]}}
        elif scale.ndim == 1 and scale.numel() > 1:
            scale = scale[:, None]
        return qtensor.FP8QTensor(full, exact, weight).dequantize(exact, scale=scale, **sizes)
    if weight.dtype == torch.int8:
        made = qtensor.INT8QTensor(full, exact, weight)
        return made.dequantize(exact, scale=scale.reshape(rows, 1))
    if scale.dtype == torch.uint8:
        made = qtensor.MXFP4QTensor(torch.Size((rows, 2 * columns)), torch.bfloat16, weight)
        return made.dequantize(scale=scale, block_sizes={-1: 2 * columns // scale.shape[-1]})
    # It packs these and has nothing that unpacks them: `pack_int4_in_uint8`, undone.
    halves = torch.stack([weight & 15, weight >> 4], dim=1).reshape(2 * rows, columns)
    signed = (halves.to(torch.int8) ^ 8) - 8
    each = scale.repeat_interleave(columns // scale.shape[-1], dim=-1)
    return signed.to(exact) * each


# transformers


def fp8_blocks(directory, hidden, kind="F32", block=(16, 16)):
    """Quantize to FP8 in blocks as transformers does, and decode with it."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    class Asked:
        class quantization_config:  # noqa: N801 - as transformers has it
            weight_block_size = block
            scale_fmt = "ue8m0" if kind == "E8M0" else "float"

    model, arrays, found = tiny(hidden), {}, {}
    quantize, decode = Fp8Quantize(Asked), Fp8Dequantize(Asked)
    for name, value in model.state_dict().items():
        if "_proj" not in name:
            arrays[name] = value
            continue
        made = dict(quantize._quantize_one(name, value))
        (scale_name,) = [key for key in made if key != name]
        arrays |= {name: made[name], scale_name: made[scale_name]}
        found[name] = decode._dequantize_one(made[name], made[scale_name])
    config = model.config.to_dict() | {
        "quantization_config": {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": list(block),
        }
    }
    arrays.pop("lm_head.weight", None)
    directory.mkdir(parents=True)
    save_file(arrays, directory / "model.safetensors", {"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config, default=str))
    note(directory, found)


def fp8_experts(directory, hidden, block=16, *, is_split=True):
    """Experts in FP8 as transformers saves them, and what it decodes.

    Where it splits the weights, their scales stay stacked; else both are. With blocks of more
    rows than an expert's gate, gate and up have a row of scales each.
    """
    from transformers import FineGrainedFP8Config, Qwen3MoeConfig, Qwen3MoeForCausalLM
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, FP8Experts
    from transformers.quantizers import AutoHfQuantizer

    sizes = {"num_experts": 3, "moe_intermediate_size": hidden // 2, "head_dim": hidden // 4}
    model = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            hidden_size=hidden,
            intermediate_size=hidden,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_hidden_layers=1,
            vocab_size=64,
            tie_word_embeddings=True,
            **sizes,
        )
    )
    config = FineGrainedFP8Config(weight_block_size=(block, block))
    quantizer = AutoHfQuantizer.from_config(config, pre_quantized=True)
    quantizer.quantization_config.dequantize = False
    quantizer._process_model_before_weight_loading(model)
    model.to_empty(device="cpu")
    model.config.quantization_config = config
    model.hf_quantizer = quantizer
    generator = torch.Generator().manual_seed(FIXED)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            made = torch.randn(value.shape, generator=generator)
            value.copy_(made.abs() + 0.01 if name.endswith("scale_inv") else made)
    model.save_pretrained(directory, save_original_format=is_split)
    decode = Fp8Dequantize(quantizer)._dequantize_one
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, FP8Experts):
            both = decode(module.gate_up_proj, module.gate_up_proj_scale_inv)
            gates, ups = both.chunk(2, dim=1)
            downs = decode(module.down_proj, module.down_proj_scale_inv)
            if not is_split:
                found |= {f"{name}.gate_up_proj": both, f"{name}.down_proj": downs}
                continue
            for ends, these in (("gate_proj", gates), ("up_proj", ups), ("down_proj", downs)):
                found |= {f"{name}.{n}.{ends}.weight": one for n, one in enumerate(these)}
        elif hasattr(module, "weight_scale_inv"):
            found[f"{name}.weight"] = decode(module.weight, module.weight_scale_inv)
    note(directory, found)


def gpt_oss(directory, hidden):
    """Blocks of MXFP4 of any bits, as GPT-OSS has them, and what transformers decodes."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(FIXED)
    base = "model.layers.0.mlp.experts"
    arrays, found = {}, {}
    for name, rows in (("gate_up_proj", 2 * hidden), ("down_proj", hidden)):
        shape = (2, rows, hidden // 32, 16)
        blocks = torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
        scales = torch.randint(110, 130, shape[:-1], generator=generator).to(torch.uint8)
        bias = torch.randn(shape[:2], generator=generator).to(torch.bfloat16)
        arrays |= {
            f"{base}.{name}_blocks": blocks,
            f"{base}.{name}_scales": scales,
            f"{base}.{name}_bias": bias,
        }
        values = convert_moe_packed_tensors(blocks, scales)
        found[f"{base}.{name}.weight"] = values.transpose(1, 2)
    directory.mkdir(parents=True)
    save_file(arrays, directory / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        },
    }
    (directory / "config.json").write_text(json.dumps(config))
    note(directory, found)


def main(directory, hidden=32, *only):
    """Write all of them."""
    warnings.simplefilter("ignore")
    root, hidden = Path(directory), int(hidden)
    jobs = {
        **{name: (lambda one, name=name: compressed(one, name, hidden)) for name in COMPRESSED},
        **{name: (lambda one, name=name: modelopt(one, name, hidden)) for name in MODELOPT},
        **{
            name: (lambda one, name=name: modelopt_experts(one, name, hidden))
            for name in EXPERTS
        },
        "hf-fp8-block": lambda one: fp8_blocks(one, hidden),
        "hf-fp8-ue8m0": lambda one: fp8_blocks(one, hidden, "E8M0"),
        "hf-mxfp8": lambda one: fp8_blocks(one, hidden, "E8M0", (1, 32)),
        "hf-fp8-experts": lambda one: fp8_experts(one, hidden),
        "hf-fp8-experts-fused": lambda one: fp8_experts(one, hidden, 32, is_split=False),
        "gpt-oss": lambda one: gpt_oss(one, hidden),
    }
    for name, make in jobs.items():
        if only and name not in only:
            continue
        try:
            make(root / name)
            print(f"{name}: written")
        except Exception as error:  # noqa: BLE001 - the others are worth having
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
