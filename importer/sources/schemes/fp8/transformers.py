"""MXFP8 as transformers writes it: what its configuration says, and how it calls the arrays.

Facts: `Fp8Quantize` in integrations/finegrained_fp8.py and `should_convert_module` of 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from store.json import Json

BLOCK: Final = [1, 32]
SCALES: Final = "F8_E8M0"
END: Final = "_scale_inv"
"""Of the names of scales, behind `weight` or the name of a stack."""
_NEVER: Final = ("lm_head", "embed_tokens")
"""The output layer is left out, whatever the configuration says; an embedding is not linear."""


def converts(config: Mapping[str, Json], module: str) -> bool:
    """Return whether a module has MXFP8 in transformers."""
    said = config.get("quantization_config")
    if not isinstance(said, dict) or said.get("quant_method") != "fp8":
        return False
    if said.get("weight_block_size") != BLOCK or module.rpartition(".")[2] in _NEVER:
        return False
    left = said.get("modules_to_not_convert")
    words = [word for word in left if isinstance(word, str)] if isinstance(left, list) else []
    return not any(f".{word}." in f".{module}." for word in words)
