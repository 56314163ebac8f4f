"""The files of a source directory: which there are."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from importer.sources.file import Identity, SourceFile, find
from importer.sources.hub_cache import enter_repository, places_of
from importer.sources.roles import why_left_out
from store import limits
from store.errors import InputError, NotFoundError
from store.paths import why_unsafe
from store.text import printable


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something in the source that does not become part of the model, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where on the Hub a source comes from.

    Attributes:
        repository: `org/name`.
        commit: that the revision was.
    """

    repository: str
    commit: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A source directory.

    Attributes:
        root: links resolved.
        files: every regular file, sorted by path.
        left_out: what is no regular file, or is hidden; what is not kept anyway and has a
            name that no model could hold.
        origin: the Hub repository that it is of, if it is of one.
        notes: what the user should know about how it came here.
    """

    root: Path
    files: tuple[SourceFile, ...]
    left_out: tuple[LeftOut, ...]
    origin: Origin | None = None
    notes: tuple[str, ...] = ()


def read_tree(source: Path) -> Tree:
    """List every regular file below `source`, which may also be a single file.

    A repository of the Hugging Face cache stands for its snapshot. Links are followed where
    they lead to another place in the source, or from a snapshot to its repository's blobs.

    Raises:
        NotFoundError: there is no such directory.
        InputError: a link leaves the source, a weights file is no regular file, or a name
            is not safe everywhere.
    """
    try:
        root = enter_repository(source).resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"source `{printable(str(source))}` does not exist",
            code="E_SRC_MISSING",
            hint="SOURCE is a directory with a checkpoint, or a `.safetensors` file",
        ) from error
    except (RuntimeError, OSError) as error:
        # A loop is a RuntimeError before Python 3.13.
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            _bad(str(source), "E_PATH", "is a link that leads back to itself")
        raise
    if root.is_file():
        return Tree(root.parent, (_single(source.name, root),), ())
    if not root.is_dir():
        _bad(str(source), "E_SRC_TYPE", "is neither a directory nor a regular file")
    walk = _Walk(root)
    walk.visit(root, "", frozenset({root}))
    files = sorted(walk.files, key=lambda file: file.path.encode())
    return Tree(root, tuple(files), tuple(sorted(walk.left_out, key=lambda out: out.path)))


class _Walk:
    def __init__(self, root: Path) -> None:
        self.files: list[SourceFile] = []
        self.left_out: list[LeftOut] = []
        self.entries = 0
        self.allowed: Final = places_of(root)

    def visit(self, directory: Path, prefix: str, above: frozenset[Path]) -> None:
        with os.scandir(directory) as scan:
            entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            path = prefix + _utf8(entry.name)
            self.count(path)
            location, seen = self.resolve(path, Path(entry.path))
            if stat.S_ISDIR(seen.st_mode):
                self.enter(path, location, above)
            elif stat.S_ISREG(seen.st_mode):
                self.add(path, location, seen)
            elif entry.is_symlink() or path.endswith((".safetensors", ".json")):
                _bad(path, "E_SRC_TYPE", "is no regular file")
            else:
                self.left_out.append(LeftOut(printable(path), "no regular file"))

    def count(self, path: str) -> None:
        # Directories too: 20 of them that link twice to the next are a million paths.
        self.entries += 1
        if self.entries > limits.FILES_PER_SOURCE:
            _bad(path, "E_LIMIT", f"is entry number {self.entries} of the source")

    def resolve(self, path: str, location: Path) -> tuple[Path, os.stat_result]:
        seen, real = _follow(path, location)
        special = not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode))
        if not special and not any(real.is_relative_to(place) for place in self.allowed):
            _bad(path, "E_PATH", "is a link that leaves the source", hint=_OUTSIDE)
        return real, seen

    def enter(self, path: str, location: Path, above: frozenset[Path]) -> None:
        name = path.rpartition("/")[2]
        if name.startswith("."):
            self.left_out.append(LeftOut(f"{printable(path)}/", "hidden directory"))
            return
        if name.endswith(".safetensors"):
            _bad(path, "E_SRC_TYPE", "is a directory, expected a file")
        if location in above:
            _bad(path, "E_PATH", "is a link that leads back to itself")
        if path.count("/") >= _DEPTH:
            _bad(path, "E_LIMIT", f"is nested in more than {_DEPTH} directories")
        self.visit(location, f"{path}/", above | {location})

    def add(self, path: str, location: Path, seen: os.stat_result) -> None:
        reason = why_left_out(path)
        if reason and why_unsafe(path) and ".safetensors" not in path.lower():
            self.left_out.append(LeftOut(printable(path), reason))
            return
        # Weights, too, whether they are selected or not: that depends on all of their names.
        _check_name(path)
        self.files.append(SourceFile(path, location, Identity.of(seen)))


def _follow(path: str, location: Path) -> tuple[os.stat_result, Path]:
    try:
        seen = os.stat(location)
        return seen, location.resolve(strict=True) if location.is_symlink() else location
    except (FileNotFoundError, NotADirectoryError):
        _bad(path, "E_PATH", "is a link to something that does not exist")
    except OSError as error:
        if error.errno == errno.ELOOP:
            _bad(path, "E_PATH", "is a link that leads back to itself")
        raise


def _single(name: str, file: Path) -> SourceFile:
    # By the name that was given: in the Hub's cache it links to one that is a mere hash.
    name = _utf8(name if name.endswith(".safetensors") else file.name)
    _check_name(name)
    return find(name, file)


def _utf8(name: str) -> str:
    # The bytes of the name decide, not the locale that python read them in.
    return os.fsencode(name).decode(errors="surrogateescape")


def _check_name(path: str) -> None:
    if why := why_unsafe(path):
        _bad(path, "E_NAME", f"has a name that is not safe everywhere: it {why}", hint=_RENAME)


_DEPTH: Final = 64
_OUTSIDE: Final = "Put the file itself there, or name the directory that it really is in"
_RENAME: Final = (
    "Rename the file, or move it elsewhere: names in a model have to work on every system"
)


def _bad(path: str, code: str, message: str, hint: str | None = None) -> NoReturn:
    raise InputError(f"`{printable(path)}` {message}", code=code, hint=hint)
