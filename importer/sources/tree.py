"""The files of a source directory, each with its role."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from importer.sources.base import HEAD_BYTES
from importer.sources.containers import FORMATS
from importer.sources.file import Identity, SourceFile, find, opened, read_bytes
from importer.sources.hub_cache import enter_repository, places_of
from importer.sources.location import missing
from importer.sources.roles import LeftOut, role_alone, role_of
from store import limits
from store.errors import InputError
from store.paths import why_unsafe
from store.text import printable


class Origin(NamedTuple):
    """The repository on the Hub that a source comes from.

    Attributes:
        repository: as `org/name`.
        commit: that the revision stood for.
    """

    repository: str
    commit: str


class Tree(NamedTuple):
    """A source directory.

    Attributes:
        root: the directory, links resolved.
        files: every regular file, sorted by path.
        left_out: what is hidden or not a regular file; also what would not be kept anyway
            and has a name that no model could hold.
        origin: the Hub repository that the files are of, if they are of one.
        notes: what the user should know about how the files came here.
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
        NotFoundError: there is no such directory or file.
        InputError: a link leaves the source, a weights file is not a regular file, or a
            name is not safe everywhere.
    """
    try:
        root = enter_repository(source).resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing(source) from error
    except (RuntimeError, OSError) as error:
        # A loop is a RuntimeError before Python 3.13.
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            _bad(str(source), "E_PATH", "is a link that leads back to itself")
        raise
    if root.is_file():
        file = _single(source.name, root)
        return Tree(root.parent, (file, *_members(source, file)), ())
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
            elif entry.is_symlink() or path.endswith(".json") or role_of(path, FORMATS).format:
                _bad(path, "E_SRC_TYPE", "is not a regular file")
            else:
                self.left_out.append(LeftOut(printable(path), "not a regular file"))

    def count(self, path: str) -> None:
        # Directories, too: 20 of them that link twice to the next are a million paths.
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
        if role_of(path, FORMATS).is_weights:
            _bad(path, "E_SRC_TYPE", "is a directory, expected a file")
        if location in above:
            _bad(path, "E_PATH", "is a link that leads back to itself")
        if path.count("/") >= _DEPTH:
            _bad(path, "E_LIMIT", f"is nested in more than {_DEPTH} directories")
        self.visit(location, f"{path}/", above | {location})

    def add(self, path: str, location: Path, seen: os.stat_result) -> None:
        role = role_of(path, FORMATS)
        if role.reason and not role.format and why_unsafe(path):
            self.left_out.append(LeftOut(printable(path), role.reason))
            return
        # Weights, too, selected or not: their names, all together, decide about that.
        _check_name(path)
        self.files.append(SourceFile(path, location, Identity.of(seen), role=role))


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
    name = _utf8(name if role_of(name, FORMATS).format else file.name)
    _check_name(name)
    found = find(name, file)
    with opened(found) as descriptor:
        head = read_bytes(found, descriptor, 0, min(HEAD_BYTES, found.size))
    return replace(found, role=role_alone(name, head, FORMATS))


def _members(source: Path, file: SourceFile) -> Iterator[SourceFile]:
    """Yield the other files of a split that lie beside the one that was named."""
    own = file.role.weights
    if own is None or not own.stands_alone or own.count <= 1:
        return
    for name in sorted(os.listdir(source.parent)):
        role = role_of(_utf8(name), FORMATS)
        named = role.weights
        if name == source.name or named is None or role.format != file.role.format:
            continue
        if (named.stem, named.count) == (own.stem, own.count):
            yield find(_utf8(name), (source.parent / name).resolve(strict=True), role)


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
