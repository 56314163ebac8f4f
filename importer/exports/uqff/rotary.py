"""Where mistral.rs looks for the rotary embeddings in `config.json`, and transformers 5 not."""

from __future__ import annotations

from typing import Final

from importer.sources.document import Document
from store.json import Json

_PARAMETERS: Final = "rope_parameters"
_TOP: Final = ("rope_theta", "partial_rotary_factor")
"""What transformers 4 wrote beside `rope_scaling`, and 5 writes into `rope_parameters`."""
_SCALING: Final = "rope_scaling"
_TYPE: Final = "rope_type"
_UNSCALED: Final = frozenset({"default", None})


def spelled_as_before(config: Document) -> dict[str, Json]:
    """Return the keys of transformers 4 that a configuration of transformers 5 lacks.

    mistralrs 0.9.5 fails without `rope_theta`, and where it does not find `rope_scaling` it
    computes unscaled angles. None are missing where `rope_parameters` is a table of kinds of
    layers, for which the earlier spelling has no general form.
    """
    told = config.get(_PARAMETERS)
    if not isinstance(told, dict) or not isinstance(told.get("rope_theta"), int | float):
        return {}
    found: dict[str, Json] = {key: told[key] for key in _TOP if key in told}
    if told.get(_TYPE) not in _UNSCALED:
        found[_SCALING] = {key: value for key, value in told.items() if key not in _TOP}
    return {key: value for key, value in found.items() if config.get(key) is None}
