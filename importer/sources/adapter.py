"""Whether a source is an adapter: weights that change a model, and are not one."""

from __future__ import annotations

import re
from typing import Final

from importer.sources.configuration import ADAPTER_CONFIG
from importer.sources.inventory import Inventory
from store.text import printable

_WEIGHTS: Final = re.compile(r"adapter_model(-\d+-of-\d+)?\.(safetensors|bin)")
_LORA: Final = re.compile(r"(^|[._])lora([._]|$)", re.IGNORECASE)
"""In the names of PEFT (`q_proj.lora_A.weight`), diffusers (`to_q.lora.up.weight`), mlx_lm
(`q_proj.lora_a`) and kohya (`lora_unet_….lora_down.weight`)."""


def adapter_of(inventory: Inventory) -> str | None:
    """Return which adapter a source is, as a clause for people, or None where it is a model.

    Its directory may have a `config.json`, that of the model which it changes.
    """
    if inventory.model is not None or not inventory.tensors:
        return None
    is_named = all(_WEIGHTS.fullmatch(file.name) for file in inventory.weights)
    if not is_named and not all(_LORA.search(tensor.name) for tensor in inventory.tensors):
        return None
    config = inventory.document(ADAPTER_CONFIG) or {}
    kind, base = config.get("peft_type"), config.get("base_model_name_or_path")
    is_lora = kind == "LORA" or (
        kind is None and any(_LORA.search(tensor.name) for tensor in inventory.tensors)
    )
    of = f" of `{printable(base)}`" if isinstance(base, str) and base else ""
    return (
        f"`{printable(inventory.weights[0].path)}` is {'a LoRA' if is_lora else 'an'} "
        f"adapter{of}: it changes a model and is not one itself"
    )
