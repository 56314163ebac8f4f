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
        kind: what is written to: a store, or a directory.
        root: its path.
        folder: in it, of the writer; nothing else has one of that name.
        written: paths in it that workers write to.
        files: of the source: path, size and mtime; 0 for a blob, which may be written again.
    """

    kind: str
    root: str
    folder: str
    written: list[str]
    files: list[tuple[str, int, int]]

    @classmethod
    def of_store(cls, root: Path, folder: str, files: Iterable[SourceFile]) -> View:
        """Return what the machine sees that planned an import."""
        return cls("store", str(root), f"tmp/{folder}", ["tmp", "blobs"], _seen(files))

    @classmethod
    def of_directory(cls, folder: Path, files: Iterable[SourceFile]) -> View:
        """Return what the machine sees that planned to fill a directory."""
        name = folder.name
        return cls("directory", str(folder.parent), name, [name], _seen(files))


def _seen(files: Iterable[SourceFile]) -> list[tuple[str, int, int]]:
    """Return what is seen of files; those that stand nowhere are made anywhere."""
    in_order = sorted((file for file in files if file.maker is None), key=lambda one: one.path)
    return [
        (str(file.location), file.size, 0 if file.is_blob else file.identity.mtime_ns)
        for file in in_order
    ]


def look(
    kind: str, root: str, folder: str, written: list[str], files: list[tuple[str, int, int]]
) -> dict[str, Any]:
    """Look around on a worker, for the fields of a `View`.

    Returns:
        `host`; `versions` by name; `problem`, which is a sentence, or empty.
    """
    problems = (_wrong_file(*file) for file in files)
    problem = _wrong_place(kind, root, folder, written) or next(filter(None, problems), "")
    return {"host": platform.node(), "versions": versions(), "problem": problem}


def versions() -> dict[str, str]:
    """Return what must be the same wherever parts of one model are made."""
    python = ".".join(platform.python_version_tuple()[:2])
    packages = {name: version(name) for name in ("ingot", "numpy", "distributed")}
    return {**packages, "codecs": str(REVISION), "python": python}


def _wrong_place(kind: str, root: str, folder: str, written: list[str]) -> str:
    place = Path(root)
    if not place.is_dir():
        return f"the {kind} `{root}` is not there"
    if not (place / folder).is_dir():
        return f"`{root}` is another {kind} there, without `{folder}`"
    if not all(os.access(place / name, os.W_OK | os.X_OK) for name in written):
        return f"the {kind} `{root}` cannot be written there"
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
