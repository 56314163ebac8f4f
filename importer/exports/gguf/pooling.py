"""How a sentence model makes one vector of those of all tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from importer.exports.gguf.documents import Documents, bad, objects
from store.errors import UnsupportedError
from store.json import Json
from store.text import printable

_MODULES: Final = "modules.json"
_FLAGS: Final = (
    ("pooling_mode_mean_tokens", 1),
    ("pooling_mode_cls_token", 2),
    ("pooling_mode_lasttoken", 3),
)
MODES: Final = {"mean": 1, "cls": 2, "lasttoken": 3}


def pooling_of(documents: Documents) -> Mapping[str, Json]:
    """Return GGUF's number for it as `pooling_type`; nothing where no module pools.

    Source: `_try_set_pooling_type` in llama.cpp's conversion/base.py.

    Raises:
        UnsupportedError: llama.cpp does not pool so.
    """
    modules = objects(documents.any(_MODULES))
    place = next((one.get("path") for one in modules if _is_pooling(one.get("type"))), None)
    if place is None:
        return {}
    if not isinstance(place, str):
        bad(_MODULES, "has a module without a path")
    told = documents.parse(f"{place}/config.json" if place else "config.json")
    flag = next((number for key, number in _FLAGS if told.get(key)), None)
    if flag is None:
        mode = told.get("pooling_mode")
        flag = MODES.get(mode) if isinstance(mode, str) else None
    if flag is None:
        raise UnsupportedError(
            f"the pooling of `{printable(place)}`, which is not that of the mean, the first or "
            "the last token",
            code="E_EXPORT_FORMAT",
        )
    return {"pooling_type": flag}


def _is_pooling(kind: Json) -> bool:
    return isinstance(kind, str) and kind.endswith("Pooling")
