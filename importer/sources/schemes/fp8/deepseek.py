"""DeepSeek's FP4 among its FP8: what its configuration says of a module.

Facts: `expert_dtype` in transformers 5.23's configuration_deepseek_v4.py and
integrations/finegrained_fp8.py, which has it of routed experts alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from store.json import Json

_ROUTED: Final = re.compile(r"(?:.*\.)?experts\.\d+\.\w+")
_KEY: Final = "expert_dtype"


def has_fp4(config: Mapping[str, Json], module: str) -> bool:
    """Return whether a module of a model in FP8 has FP4 as DeepSeek packs it."""
    inner = config.get("quantization_config")
    said = inner.get(_KEY, config.get(_KEY)) if isinstance(inner, dict) else None
    return said == "fp4" and _ROUTED.fullmatch(module) is not None
