"""ModelOpt's own file of configuration, which older exports have instead of config.json's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from store.json import Json

QUANT_CONFIG: Final = "hf_quant_config.json"
_KEY: Final = "quantization_config"


def with_quant_config(
    config: Mapping[str, Json], document: Mapping[str, Json]
) -> Mapping[str, Json]:
    """Return a configuration that says what both files say.

    Args:
        config: config.json, which wins if it has a `quantization_config`.
        document: `hf_quant_config.json`.

    Example:
        >>> with_quant_config({}, {"quantization": {"quant_algo": "FP8"}})
        {'quantization_config': {'quant_algo': 'FP8', 'quant_method': 'modelopt'}}
    """
    said = document.get("quantization")
    if not isinstance(said, dict) or isinstance(config.get(_KEY), dict):
        return config
    return {**config, _KEY: {**said, "quant_method": "modelopt"}}
