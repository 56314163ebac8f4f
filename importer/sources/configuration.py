"""What a `config.json` says of the whole model: the parts inside it, and the dtype."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from store.json import Json

ADAPTER_CONFIG: Final = "adapter_config.json"
"""Where PEFT describes an adapter; a `config.json` beside it is that of the model changed."""

_INNER: Final = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
DTYPES: Final = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def with_inner(config: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield a model's configuration, and then those of the text models inside it."""
    yield config
    for key in _INNER:
        inner = config.get(key)
        if isinstance(inner, dict):
            yield from with_inner(inner)


def declared_dtype(config: Mapping[str, Json]) -> str | None:
    """Return the dtype that a model computes in, or None where its configuration names none."""
    for part in with_inner(config):
        for key in ("dtype", "torch_dtype"):
            named = part.get(key)
            if isinstance(named, str) and named.removeprefix("torch.") in DTYPES:
                return DTYPES[named.removeprefix("torch.")]
    return None
