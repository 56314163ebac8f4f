"""The files of a source directory: which there are, and reading them without surprises."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from importer.sources.cache import enter_repository, places_of
from importer.sources.kept import why_left_out
from store import limits
from store.errors import InputError, NotFoundError, StorageError
from store.fs import read_into
from store.paths import why_unsafe
from store.text import printable


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells whether a file is still the one that was scanned.

    Attributes:
        size: bytes.
        ctime_ns: when anything about it changed; a hard link or a chmod beside the import
            changes it, too, so it decides only about what was seen in an earlier one.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file of a source.

    Attributes:
        path: relative to the source, with `/`; also its name in the model.
        location: where the bytes are, links resolved.
        sha256: that the Hub declares, in hexadecimal, for files in its large file storage.
    """

    path: str
    location: Path
    identity: Identity
    sha256: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.identity.size

    @property
    def directory(self) -> str:
        """The relative directory, empty for the source's own."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


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


def find(path: str, location: Path, sha256: str | None = None) -> SourceFile:
    """Give the file at a known place, links resolved, a path in a source."""
    return SourceFile(path, location, _identity(os.stat(location)), sha256)


@contextlib.contextmanager
def opened(file: SourceFile) -> Iterator[int]:
    """Open a source file that must still be the one that was scanned; give its descriptor.

    Raises:
        InputError: it has changed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file.location, flags)
    except OSError as error:
        if error.errno in _NO_LONGER_A_FILE:
            changed(file)
        raise
    try:
        if _identity(os.fstat(descriptor)) != file.identity:
            changed(file)
        yield descriptor
    finally:
        os.close(descriptor)


def read_exactly(file: SourceFile, descriptor: int, buffer: memoryview, offset: int) -> None:
    """Fill `buffer` from `offset`.

    Never through a mapping: there a file that is truncated meanwhile is a SIGBUS.

    Raises:
        InputError: the file ends before.
        StorageError: the device failed.
    """
    while buffer:
        try:
            count = read_into(descriptor, buffer, offset)
        except OSError as error:
            raise StorageError(
                f"`{file.path}`: {error.strerror} at byte {offset}", code="E_IO"
            ) from error
        if count == 0:
            changed(file)
        buffer = buffer[count:]
        offset += count


def read_whole(file: SourceFile, limit: int) -> bytes:
    """Read a small file.

    Raises:
        InputError: it is larger than `limit` bytes, or has changed.
    """
    if file.size > limit:
        _bad(file.path, "E_LIMIT", f"has {file.size} bytes, the limit is {limit}")
    data = bytearray(file.size)
    with opened(file) as descriptor:
        read_exactly(file, descriptor, memoryview(data), 0)
    return bytes(data)


def check_unchanged(file: SourceFile) -> None:
    """Make sure that a file is still the one that was scanned.

    Raises:
        InputError: it has changed.
    """
    with contextlib.suppress(FileNotFoundError):
        if _identity(os.stat(file.location)) == file.identity:
            return
    changed(file)


def changed(file: SourceFile) -> NoReturn:
    """Refuse a file that is no longer what was scanned."""
    raise InputError(
        f"`{file.path}` changed while it was imported",
        code="E_SOURCE_CHANGED",
        hint="Let the download or training that writes it finish, then run the command again",
    )


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
            path = prefix + entry.name
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
        self.files.append(SourceFile(path, location, _identity(seen)))


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
    name = name if name.endswith(".safetensors") else file.name
    _check_name(name)
    return find(name, file)


def _check_name(path: str) -> None:
    if why := why_unsafe(path):
        _bad(path, "E_NAME", f"has a name that is not safe everywhere: it {why}", hint=_RENAME)


def _identity(seen: os.stat_result) -> Identity:
    return Identity(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


_NO_LONGER_A_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DEPTH: Final = 64
_OUTSIDE: Final = "Put the file itself there, or name the directory that it really is in"
_RENAME: Final = (
    "Rename the file, or move it elsewhere: names in a model have to work on every system"
)


def _bad(path: str, code: str, message: str, hint: str | None = None) -> NoReturn:
    raise InputError(f"`{printable(path)}` {message}", code=code, hint=hint)
