"""Whether a worker is fit for an import: the same versions, the same store, the same files."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from importer.codecs.base import REVISION
from importer.sources.file import SourceFile

TOPIC: Final = "ingot"
"""Under which workers tell how far they are."""


class View(NamedTuple):
    """What every machine has to see: values that any version can read.

    Attributes:
        store: the root.
        folder: of a writer in its `tmp/`; no other store has one of that name.
        files: of the source: path, size and mtime; 0 for a blob, which may be written again.
    """

    store: str
    folder: str
    files: list[tuple[str, int, int]]

    @classmethod
    def of(cls, root: Path, folder: str, files: Iterable[SourceFile]) -> View:
        """Return what the machine sees that planned an import."""
        seen = [
            (str(file.location), file.size, 0 if file.is_blob else file.identity.mtime_ns)
            for file in files
        ]
        return cls(str(root), folder, seen)


def look(store: str, folder: str, files: list[tuple[str, int, int]]) -> dict[str, Any]:
    """Look around on a worker, for the fields of a `View`.

    Returns:
        `host`; `versions` by name; `problem`, which is a sentence, or empty.
    """
    problems = (_wrong_file(*file) for file in files)
    problem = _wrong_store(store, folder) or next(filter(None, problems), "")
    return {"host": platform.node(), "versions": versions(), "problem": problem}


def versions() -> dict[str, str]:
    """Return what must be the same wherever parts of one model are made."""
    python = ".".join(platform.python_version_tuple()[:2])
    packages = {name: version(name) for name in ("ingot", "numpy", "distributed")}
    return {**packages, "codecs": str(REVISION), "python": python}


def _wrong_store(root: str, folder: str) -> str:
    store = Path(root)
    if not store.is_dir():
        return f"the store `{root}` is not there"
    if not (store / "tmp" / folder).is_dir():
        return f"`{root}` is another store there, without `tmp/{folder}`"
    if not all(os.access(store / name, os.W_OK | os.X_OK) for name in ("tmp", "blobs")):
        return f"the store `{root}` cannot be written there"
    return ""


def _wrong_file(path: str, size: int, mtime_ns: int) -> str:
    try:
        seen = os.stat(path)
    except OSError as error:
        return f"`{path}` of the source: {error.strerror}"
    if seen.st_size != size:
        return f"`{path}` of the source has {seen.st_size} bytes there, expected {size}"
    if mtime_ns not in {0, seen.st_mtime_ns}:
        times = f"mtime {seen.st_mtime_ns} ns there, expected {mtime_ns}"
        return f"`{path}` of the source has {times}"
    return "" if os.access(path, os.R_OK) else f"`{path}` of the source cannot be read there"
