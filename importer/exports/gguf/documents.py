"""The files that a model's vocabulary is in, read within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, TypeGuard

from importer.sources.file import read_whole
from importer.sources.inventory import Inventory
from store.errors import InputError
from store.json import Json, JsonError, loads
from store.text import printable

TOKENIZER: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
SENTENCEPIECE: Final = "tokenizer.model"
LIMIT: Final = 64 << 20
"""Bytes of a file: the largest that were seen, of Gemma 3, have 33 MB."""


class Documents:
    """The kept files of a model, each parsed once."""

    def __init__(self, inventory: Inventory) -> None:
        """Take the files of an inventory; nothing is read."""
        self._inventory = inventory
        self._parsed: dict[str, Mapping[str, Json]] = {}

    def __contains__(self, path: str) -> bool:
        return self._inventory.file(path) is not None

    def paths(self, prefix: str, suffix: str) -> list[str]:
        """Return the paths that begin and end so, sorted."""
        found = (file.path for file in self._inventory.files)
        return sorted(one for one in found if one.startswith(prefix) and one.endswith(suffix))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file that is there.

        Raises:
            InputError: it is too large.
        """
        file = self._inventory.file(path)
        assert file is not None, path
        return read_whole(file, LIMIT)

    def text(self, path: str) -> str:
        """Return the text of a file that is there.

        Raises:
            InputError: it is not UTF-8.
        """
        try:
            return self.read(path).decode()
        except UnicodeDecodeError as error:
            bad(path, f"is not UTF-8 at byte {error.start}", error)

    def parse(self, path: str) -> Mapping[str, Json]:
        """Return a JSON object; an empty one where there is no such file.

        Raises:
            InputError: it is not a JSON object.
        """
        if path not in self:
            return {}
        if path not in self._parsed:
            found = self._loaded(path)
            if not isinstance(found, dict):
                bad(path, "is not a JSON object")
            self._parsed[path] = found
        return self._parsed[path]

    def any(self, path: str) -> Json:
        """Return a JSON document of any kind; null where there is no such file.

        Raises:
            InputError: it is not JSON.
        """
        return self._loaded(path) if path in self else None

    def _loaded(self, path: str) -> Json:
        try:
            return loads(self.read(path), floats=True, constants=True)
        except JsonError as error:
            bad(path, f"cannot be read: {error}", error)


def bad(path: str, what: str, cause: Exception | None = None) -> NoReturn:
    """Raise InputError for a file of a vocabulary that cannot be."""
    raise InputError(f"`{path}` {printable(what, 500)}", code="E_TOKENIZER") from cause


def objects(found: Json) -> list[dict[str, Json]]:
    """Return the objects in a list; none where it is not one."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def as_object(found: Json) -> Mapping[str, Json]:
    """Return an object; an empty one for something else."""
    return found if isinstance(found, dict) else {}


def as_list(found: Json) -> Sequence[Json]:
    """Return a list; an empty one for something else."""
    return found if isinstance(found, list) else []


def is_number(found: Json, limit: int) -> TypeGuard[int]:
    """Return whether something is a whole number from 0 to before a limit."""
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < limit
