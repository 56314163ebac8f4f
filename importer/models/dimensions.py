"""How large the parts of a model are, as its configuration tells: layers, heads, vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from importer.sources.configuration import with_inner
from store.json import Json

_LARGEST: Final = 2**31 - 1
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "heads": (
        "num_attention_heads",
        "n_head",
        "num_heads",
        "n_heads",
        "encoder_attention_heads",
    ),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv"),
    "vocabulary": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "experts_used": ("num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts"),
}
"""What transformers' configurations call them; the first that is there counts."""


class Dimensions(NamedTuple):
    """Numbers of a model's parts, None where nothing tells.

    Attributes:
        layers: of the language model.
        heads: of attention, in each layer.
        kv_heads: heads of keys and values, where that is another number.
        vocabulary: tokens that the embedding has.
        experts: routed ones, in each layer that has any.
        experts_used: of these for each token.
    """

    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    vocabulary: int | None = None
    experts: int | None = None
    experts_used: int | None = None


def dimensions_of(config: Mapping[str, Json]) -> Dimensions:
    """Return what a `config.json` tells; what is not a number tells nothing."""
    found: dict[str, int] = {}
    for part in with_inner(config):
        for field, keys in _KEYS.items():
            for key in keys:
                value = part.get(key)
                if field not in found and type(value) is int and 0 < value <= _LARGEST:
                    found[field] = value
    if found.get("kv_heads") == found.get("heads"):
        found.pop("kv_heads", None)
    return Dimensions(**found)
