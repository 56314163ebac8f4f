"""The files of a repository as files of a source, wherever the cache has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from importer.sources import hub_cache
from importer.sources.containers import FORMATS
from importer.sources.file import Identity, SourceFile, find
from importer.sources.roles import FileRole, role_of
from importer.sources.selection import Needed, choose, needed
from store.errors import InputError
from store.text import printable


def roles_of(paths: Iterable[str]) -> dict[str, FileRole]:
    """Return what each file of a repository is, by the names alone, as for a directory."""
    return {path: role_of(path, FORMATS) for path in paths}


def needed_of(
    roles: Mapping[str, FileRole],
    source: str,
    variant: str | None,
    index: Callable[[str], SourceFile],
    sizes: Mapping[str, int] | None = None,
) -> Needed:
    """Return which files an import reads, so that no others are fetched.

    Args:
        roles: of every file that is not hidden.
        source: what to call the repository in an error.
        variant: of the weights, such as `fp16`.
        index: makes the shard index at a path readable.
        sizes: of files in bytes, where they are known.

    Raises:
        InputError: the weights are ambiguous or incomplete, or there are none.
        UnsupportedError: they are in a format that is not read.
    """
    choice = choose(roles, source, variant, sizes)
    indexes = {path: index(path) for path in sorted(choice.indexes)}
    return needed(roles, choice, indexes)


def cached_file(snapshot: Path, path: str, role: FileRole) -> SourceFile:
    """Return a file of a snapshot in the cache.

    Raises:
        InputError: it is a link that leaves the cache.
    """
    pointer = snapshot / path
    location = inside(snapshot, pointer.resolve(strict=True), path)
    return find(path, location, role, hub_cache.declared_sha256(pointer))


def absent_file(root: Path, path: str, role: FileRole, size: int = 0) -> SourceFile:
    """Return a file that is never opened: it is there to be named among what is left out."""
    return SourceFile(path, root / path, Identity(0, 0, size, 0), role=role)


def inside(snapshot: Path, location: Path, path: str) -> Path:
    """Return the location of a snapshot's file, links resolved, if the cache has it.

    Raises:
        InputError: it is outside of the cache.
    """
    if not any(location.is_relative_to(place) for place in hub_cache.places_of(snapshot)):
        raise InputError(
            f"`{printable(path)}` is a link that leaves the cache",
            code="E_PATH",
            hint=f"Remove it from `{printable(str(snapshot))}`: it will be fetched again",
        )
    return location
