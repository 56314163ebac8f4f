"""AutoGPTQ's and AutoAWQ's own files of configuration, which older exports have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from store.json import Json

OWN_CONFIGS: Final = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
"""Of programs from before config.json had a place for it; and the method they are of."""
_KEY: Final = "quantization_config"


def with_own_config(
    config: Mapping[str, Json], name: str, document: Mapping[str, Json]
) -> Mapping[str, Json]:
    """Return a configuration that says what both files say.

    Args:
        config: config.json, which wins if it has a `quantization_config`: transformers reads
            only that.
        name: of the other file, one of `OWN_CONFIGS`.
        document: the other file.

    Example:
        >>> with_own_config({}, "quantize_config.json", {"bits": 4})
        {'quantization_config': {'quant_method': 'gptq', 'bits': 4}}
    """
    if isinstance(config.get(_KEY), dict):
        return config
    return {**config, _KEY: {"quant_method": OWN_CONFIGS[name], **document}}
