"""The `config.json` of an export: the source's, less what is no longer true."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from importer.sources.configuration import DTYPES
from importer.sources.document import Document
from store.json import Json

QUANTIZATION_KEYS: Final = frozenset(
    {"quantization", "quantization_config", "compression_config"}
)
"""Under which a configuration says how weights are stored."""
DTYPE_KEYS: Final = ("dtype", "torch_dtype")
"""Under which it says what the model computes in: transformers 5, and earlier ones."""
QUANTIZATION_FILES: Final = frozenset(
    {"quantize_config.json", "quant_config.json", "hf_quant_config.json"}
)
"""Files beside it that say no more than how weights are stored: GPTQ, AWQ, ModelOpt."""

_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}


def to_bytes(document: Mapping[str, Json], indent: int = 2) -> bytes:
    """Return a document as transformers writes it: floats as python spells them."""
    return f"{json.dumps(document, indent=indent, ensure_ascii=False)}\n".encode()


def without_quantization(config: Document) -> dict[str, Json]:
    """Return a configuration of weights that are stored as they are."""
    return _changed(config, lambda key, value: (key not in QUANTIZATION_KEYS, value))


def with_dtype(config: Document, dtype: str) -> dict[str, Json]:
    """Return a configuration whose models, inner ones too, compute in a dtype.

    Args:
        dtype: `F32`, `BF16` or `F16`.
    """
    name = _NAMES[dtype]

    def change(key: str, value: Json) -> tuple[bool, Json]:
        if key in DTYPE_KEYS and isinstance(value, str):
            return True, name if value.removeprefix("torch.") in DTYPES else value
        return True, value

    made = _changed(config, change)
    if not any(key in made for key in DTYPE_KEYS) and "model_type" in made:
        made[DTYPE_KEYS[1]] = name
    return made


def _changed(
    config: Mapping[str, Json], change: Callable[[str, Json], tuple[bool, Json]]
) -> dict[str, Json]:
    made: dict[str, Json] = {}
    for key, value in config.items():
        stays, new = change(key, value)
        if stays:
            is_inner = isinstance(new, dict) and key not in QUANTIZATION_KEYS
            made[key] = _changed(new, change) if is_inner else new  # type: ignore[arg-type]  # a dict
    return made
