"""What a list says of a model: no more than its configuration tells, without a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from importer.models.stored_configuration import read_configuration
from importer.sources.stored import RECORD_KEY
from store import Layer, Store
from store.json import Json
from store.text import UNITS, short_count


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


_FLOATS: Final = frozenset({"f32", "bf16", "f16"})
NOTHING: Final = Summary("", "", "")


def summary_of(store: Store, config: Layer) -> Summary:
    """Return what the configuration of a model says of it, one of ours or of Ollama's.

    Raises:
        IntegrityError: it is missing, damaged, or not a JSON object.
        OSError: it cannot be read.
    """
    document = read_configuration(store, config)
    record = document.get(RECORD_KEY)
    ours = record if isinstance(record, dict) else {}
    return Summary(
        _type(_text(document, "file_type")),
        shortened(_text(document, "model_type")),
        _text(ours, "architecture") or _text(document, "model_family"),
    )


def shortened(parameters: str) -> str:
    """Return a number of parameters with as many digits as those of our own models have.

    Ollama's server writes 22.57M into the configuration of a GGUF file, and 22.6M into those
    of other models. Of one that has fewer, such as 49K, no others are made up.
    """
    number, letter = parameters[:-1], parameters[-1:]
    if letter not in UNITS or not number.replace(".", "", 1).isdecimal() or "." not in number:
        return parameters
    return short_count(round(float(number) * UNITS[letter]))


def _type(name: str) -> str:
    """Return a type as tensors have it: who asks for bf16 gets tensors in BF16."""
    return name.upper() if name in _FLOATS else name


def _text(document: Mapping[str, Json], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""
