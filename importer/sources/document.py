"""The JSON objects of a source, such as its `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from importer.sources.file import SourceFile, read_whole
from store import limits
from store.errors import InputError
from store.json import Json, JsonError, loads

CONFIG: Final = "config.json"

Document = Mapping[str, Json]


def read_document(file: SourceFile) -> Document:
    """Read a JSON file of a source that must be an object.

    Raises:
        InputError: it is not.
    """
    try:
        value = loads(read_whole(file, limits.CONFIG_BYTES), floats=True, constants=True)
    except JsonError as error:
        raise InputError(f"`{file.path}`: {error}", code="E_CONFIG") from error
    if not isinstance(value, dict):
        raise InputError(f"`{file.path}` is not a JSON object", code="E_CONFIG")
    return value
