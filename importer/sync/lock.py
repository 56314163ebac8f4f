"""The lock of a list: what each model was made of, and the manifest that it got."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from importer.sync.listing import Listed
from store import Digest
from store.durable import replace_file
from store.errors import IngotError, InputError
from store.json import JsonError, loads
from store.text import printable

_SCHEMA: Final = "ingot.lock/1"
_LARGEST: Final = 1 << 24


class Locked(NamedTuple):
    """What a model of a list was made of.

    Attributes:
        source: as the list spelled it.
        options: as the list said.
        commit: that the revision stood for, or None where the source is not on the Hub.
        manifest: that the name got.
    """

    source: str
    options: Mapping[str, Any]
    commit: str | None
    manifest: Digest

    def is_of(self, listed: Listed) -> bool:
        """Return whether the list still asks for the same."""
        return not self.differences(listed)

    def differences(self, listed: Listed) -> list[str]:
        """Return what the list says otherwise, such as `quantize int4, locked int8`."""
        ours = {"source": self.source, **self.options}
        theirs = {"source": listed.source, **listed.options}
        return [
            f"{key} {_shown(theirs.get(key))}, locked {_shown(ours.get(key))}"
            for key in dict.fromkeys((*theirs, *ours))
            if key not in theirs or key not in ours or theirs[key] != ours[key]
        ]


def path_of_lock(listing: Path) -> Path:
    """Return where the lock of a list is: beside it."""
    return listing.with_name(f"{listing.name}.lock")


def read_lock(path: Path) -> dict[str, Locked]:
    """Read a lock, by the names of models; one that is not there locks nothing.

    Raises:
        InputError: the file is not a lock.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except FileNotFoundError:
        return {}
    try:
        document: Any = loads(data)
        if document["schema"] != _SCHEMA:
            raise ValueError(f"schema `{document['schema']}`")  # noqa: TRY301 - told as the others
        return {str(row["name"]): _locked(row) for row in document["models"]}
    except (ValueError, KeyError, TypeError, JsonError, IngotError) as error:
        raise InputError(
            f"`{printable(str(path))}` is not a lock of a list of models: "
            f"{printable(str(error), 200)}",
            code="E_SYNC_LOCK",
        ) from error


def write_lock(path: Path, models: Iterable[tuple[Listed, Locked]]) -> bool:
    """Write a lock, unless the one that is there says the same; return whether it was written.

    Nobody ever reads half of it.
    """
    rows = [
        {
            "name": str(listed.name),
            "source": locked.source,
            "options": dict(sorted(locked.options.items())),
            "commit": locked.commit,
            "manifest": str(locked.manifest),
        }
        for listed, locked in sorted(models, key=lambda pair: str(pair[0].name))
    ]
    document = {"schema": _SCHEMA, "models": rows}
    data = (json.dumps(document, indent=2) + "\n").encode()
    if path.is_file() and path.read_bytes() == data:
        return False
    replace_file(path, [data])
    return True


def _shown(value: Any) -> str:  # noqa: ANN401 - whatever TOML has
    return "nothing" if value is None else f"`{printable(str(value))}`"


def _locked(row: dict[str, Any]) -> Locked:
    commit = row["commit"]
    if not isinstance(row["options"], dict) or not isinstance(commit, str | None):
        raise TypeError("options or a commit of another kind")
    return Locked(
        str(row["source"]), row["options"], commit, Digest.parse(str(row["manifest"]))
    )
