"""What MLX's `config.json` says, read and written as mlx-lm does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from importer.codecs.spec import QuantSpec
from importer.exports.documents import QUANTIZATION_KEYS, with_dtype
from importer.sources.configuration import DTYPES
from importer.sources.document import Document
from importer.sources.inventory import Inventory
from store.json import Json

_DROPPED: Final = frozenset({"_name_or_path", "vision_config"}) | QUANTIZATION_KEYS
_IN_8_BITS: Final = ("int8", 64)
_GENERATION: Final = "generation_config.json"


def is_of_mlx(config: Document) -> bool:
    """Whether MLX has quantized the model that a configuration is of."""
    declared = config.get("quantization")
    return isinstance(declared, dict) and "bits" in declared


def computed_in(config: Document) -> str | None:
    """Return the dtype that mlx-lm casts floats to before all else, or None."""
    named = config.get("torch_dtype")
    inner = config.get("text_config")
    if named is None and isinstance(inner, dict):
        named = inner.get("dtype")
    return DTYPES.get(named) if isinstance(named, str) else None


def tied_in(config: Document) -> bool | None:
    """Return whether input and output embeddings are one, or None where that is not said."""
    tied = config.get("tie_word_embeddings")
    return tied if isinstance(tied, bool) else None


def layers_of(config: Document) -> int | None:
    """Return how many layers a configuration counts."""
    count = config.get("num_hidden_layers")
    return count if type(count) is int and count >= 0 else None


def make_config(
    inventory: Inventory,
    types: Mapping[str, QuantSpec],
    in_8_bits: tuple[str, ...],
    dtype: str | None,
) -> dict[str, Json]:
    """Return the configuration of an export, keys sorted.

    Args:
        inventory: of the model.
        types: of each module that is quantized.
        in_8_bits: ends of modules that the class wants so.
        dtype: that was asked for, or None.
    """
    config = dict(inventory.configs[""])
    if dtype is not None:
        config = with_dtype(config, dtype)
    made = {key: value for key, value in config.items() if key not in _DROPPED}
    generation = inventory.document(_GENERATION) or {}
    if end := generation.get("eos_token_id"):
        made["eos_token_id"] = end
    if types:
        made["quantization"] = made["quantization_config"] = _quantization(types, in_8_bits)
    return dict(sorted(made.items()))


def _quantization(
    types: Mapping[str, QuantSpec], in_8_bits: tuple[str, ...]
) -> dict[str, Json]:
    """Return the type that most modules have, and an entry for each that has another."""
    counts = Counter(types.values())
    usual = max(counts, key=lambda spec: (counts[spec], -spec.bits, spec.group_size))
    found: dict[str, Json] = dict(_entry(usual))
    for module, spec in types.items():
        if (spec.name, spec.group_size) == _IN_8_BITS and module.endswith(in_8_bits):
            # As the classes have it: without a mode it is affine, whatever the others are.
            found[module] = {"group_size": spec.group_size, "bits": spec.bits}
        elif spec != usual:
            found[module] = _entry(spec)
    return found


def _entry(spec: QuantSpec) -> dict[str, Json]:
    return {"group_size": spec.group_size, "bits": spec.bits, "mode": spec.mode.value}
