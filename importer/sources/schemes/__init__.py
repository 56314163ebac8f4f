"""Weights that somebody has quantized already, recognized by names and dtypes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from store.json import Json

_INTEGERS: Final = frozenset({"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"})
_FP8: Final = frozenset({"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})


def is_floating(dtype: str) -> bool:
    """Whether elements of a dtype are real numbers; buffers of integers are no parameters."""
    return dtype not in _INTEGERS


def scheme_of(tensors: Iterable[tuple[str, str]], config: Mapping[str, Json]) -> str | None:
    """Name the scheme that a checkpoint was quantized with, or None.

    Facts: docs/formats/prequantized.md. Tensors decide; a configuration that claims a
    scheme without any tensor of it is a claim about another file.

    Args:
        tensors: name and dtype of each.
        config: the checkpoint's `config.json`.
    """
    dtypes = dict(tensors)
    declared = config.get("quantization_config")
    method = declared.get("quant_method") if isinstance(declared, dict) else None
    for name, dtype in dtypes.items():
        if found := _scheme_of_tensor(name, dtype, dtypes, str(method)):
            return found
    return None


def _scheme_of_tensor(  # noqa: PLR0911 - one return for each scheme
    name: str, dtype: str, dtypes: Mapping[str, str], method: str
) -> str | None:
    stem, _, last = name.rpartition(".")
    if last == "qweight" and dtype == "I32":
        return "awq" if method == "awq" else "gptq"
    if last == "weight_packed":
        return "compressed-tensors"
    if last == "weight" and dtype == "U32" and f"{stem}.scales" in dtypes:
        return "mlx"
    if last.endswith("_blocks") and dtype == dtypes.get(f"{name[:-7]}_scales") == "U8":
        return "mxfp4"
    if last == "blocks" and dtype == dtypes.get(f"{stem}.scales") == "U8":
        return "mxfp4"  # GPT-OSS as OpenAI names it
    if ".quant_state.bitsandbytes__" in name or (last == "SCB" and f"{stem}.weight" in dtypes):
        return "bitsandbytes"
    if last == "weight_scale_inv" and dtypes.get(f"{stem}.weight") in _FP8:
        return "fp8-block"
    if dtype in _FP8 and last != "weight" and f"{name}_scale_inv" in dtypes:
        return "fp8-block"  # stacked experts
    if dtype in _FP8 and any(scale in dtypes for scale in _scales(name, stem, last)):
        return "fp8"
    return _scheme_of_scale(stem, dtypes, method) if last == "weight_scale" else None


def _scales(name: str, stem: str, last: str) -> tuple[str, ...]:
    """The scales that FP8 values may have but Hugging Face's `weight_scale`."""
    if last != "weight":
        return (f"{name}_scale",)  # stacked experts, of Llama 4 for one
    # Of DeepSeek's own checkpoints, of diffusion models in single files, of Mistral's own.
    return f"{stem}.scale", f"{stem}.scale_weight", f"{stem}.qscale_weight"


def _scheme_of_scale(stem: str, dtypes: Mapping[str, str], method: str) -> str | None:
    weight = dtypes.get(f"{stem}.weight")
    if f"{stem}.weight_scale_2" in dtypes:
        return "modelopt"  # whose older exports say so in another file only
    if is_floating_weight(weight):
        return None
    if method in {"compressed-tensors", "modelopt", "bitnet"}:
        return method
    return "fp8" if weight in _FP8 else "unknown"


def is_floating_weight(dtype: str | None) -> bool:
    """Whether a weight of this dtype is an ordinary float, not packed and not FP8."""
    return dtype is None or (is_floating(dtype) and dtype not in _FP8)
