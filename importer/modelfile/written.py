"""The Modelfile of a stored model: from it and the model, the same model is made again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from importer.modelfile.grammar import ROLES, parse
from importer.modelfile.instructions import read_modelfile
from importer.modelfile.parameters import IGNORED, Number, decode
from store import Layer, MediaType, ModelName, Store, limits
from store.errors import IngotError
from store.json import Json
from store.text import is_printable

_QUOTES: Final = ("", '"', '"""')
_INSTRUCTIONS: Final = {
    MediaType.TEMPLATE: "TEMPLATE",
    MediaType.PROMPT: "TEMPLATE",
    MediaType.SYSTEM: "SYSTEM",
    MediaType.LICENSE: "LICENSE",
}


def modelfile_lines(
    store: Store, name: ModelName, config: Mapping[str, Json], layers: tuple[Layer, ...]
) -> Iterator[str]:
    """Yield a Modelfile that makes a model with the digest of `name`.

    What its grammar cannot spell is left to FROM, which has it, and a comment says so.

    Raises:
        IntegrityError: a layer is missing or damaged.
    """
    yield f"FROM {name}"
    for layer in layers:
        if layer.is_use:
            data = store.blobs.read(layer.ref, limits.CONFIG_BYTES)
            yield from _lines(layer, data)
    for key in ("renderer", "parser", "requires"):
        if isinstance(value := config.get(key), str) and value:
            yield _spelled(key.upper(), value)


def _lines(layer: Layer, data: bytes) -> Iterator[str]:
    if layer.media_type == MediaType.PARAMS:
        yield from _parameters(data)
    elif layer.media_type == MediaType.MESSAGES:
        yield from _messages(data)
    else:
        instruction = _INSTRUCTIONS[MediaType(layer.media_type)]
        try:
            yield _spelled(instruction, data.decode())
        except UnicodeDecodeError:
            yield _untold(instruction)


def _parameters(data: bytes) -> Iterator[str]:
    try:
        known = decode(data)
    except ValueError:
        yield _untold("PARAMETER")
        return
    for key, value in known.items():
        if key in IGNORED or value is None:
            continue
        values = value if isinstance(value, list) else [value]
        # All or none: half a list would replace the whole one.
        lines = [_spelled(f"PARAMETER {key}", _text(one)) for one in values]
        yield from lines if not any(line.startswith("#") for line in lines) else lines[:0]


def _messages(data: bytes) -> Iterator[str]:
    try:
        messages = json.loads(data)
        lines = [
            _spelled(f"MESSAGE {one['role']}", one["content"])
            for one in messages
            if one.keys() == {"role", "content"} and one["role"] in ROLES
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        lines, messages = [], [None]
    whole = len(lines) == len(messages) and not any(line.startswith("#") for line in lines)
    yield from lines if whole else [_untold("MESSAGE")]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, Number)) else ""


def _spelled(instruction: str, value: str) -> str:
    """Spell an instruction so that reading it gives the value, or tell that nothing does."""
    # What a terminal must not get is escaped where it is shown, and would be another value.
    for quote in _QUOTES if all(map(is_printable, value.split("\n"))) else ():
        line = f"{instruction} {quote}{value}{quote}"
        try:
            (read,) = parse(f"{line}\n#".encode(), "")
            if read.value == value and value:
                read_modelfile(f"{line}\n".encode(), "")
                return line
        except (IngotError, ValueError):
            continue
    return _untold(instruction)


def _untold(instruction: str) -> str:
    return f"# {instruction} is that of the model: a Modelfile cannot spell it"
