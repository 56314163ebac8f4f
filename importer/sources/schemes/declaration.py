"""What config.json says of the program that quantized its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from store.json import Json

_KEYS: Final = ("quantization_config", "compression_config")
"""Older files of compressed-tensors have the second; what is in the first counts."""
_METHODS: Final = (
    *("gptq", "awq", "bitsandbytes", "fp8", "fbgemm_fp8", "mxfp4"),
    *("compressed-tensors", "modelopt", "bitnet"),
)
"""What `quant_method` may be where names tell more than that an array has few bits."""


def declaration(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return what is declared of quantized weights, or nothing."""
    found = (said for key in _KEYS if isinstance(said := config.get(key), dict))
    return next(found, {})


def method_of(config: Mapping[str, Json]) -> str:
    """Return the `quant_method` that is declared, or nothing.

    Example:
        >>> method_of({"quantization_config": {"quant_method": "fp8"}})
        'fp8'
    """
    said = declaration(config).get("quant_method")
    return "" if said is None else str(said)  # mlx-lm writes a block that names none


def is_foreign(method: str) -> bool:
    """Return whether a declared method is that of a program that is not known here."""
    return bool(method) and method not in _METHODS
