"""What a list says of a model: no more than its configuration tells, without a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from importer.sources.stored import RECORD_KEY
from store import IngotError, Layer, Store, limits
from store.json import Json, JsonError, loads


class Summary(NamedTuple):
    """A model in a few words, each empty where nothing tells it.

    Attributes:
        type: what was asked for or what most bytes have, such as `int4`, `BF16` or `Q4_K_M`.
        parameters: rounded, such as `8.0B`.
        architecture: the class that the source names, or a family.
    """

    type: str
    parameters: str
    architecture: str


_NOTHING: Final = Summary("", "", "")


def summary_of(store: Store, config: Layer) -> Summary:
    """Return what the configuration of a model says of it, one of ours or of Ollama's."""
    try:
        document = loads(
            store.blobs.read(config.ref, limits.CONFIG_BYTES), floats=True, constants=True
        )
    except (IngotError, OSError, JsonError):
        return _NOTHING  # verify tells of it
    if not isinstance(document, dict):
        return _NOTHING
    record = document.get(RECORD_KEY)
    ours = record if isinstance(record, dict) else {}
    return Summary(
        _text(document, "file_type"),
        _text(document, "model_type"),
        _text(ours, "architecture") or _text(document, "model_family"),
    )


def _text(document: Mapping[str, Json], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""
