"""Does it fit? Bytes needed and free, compared before the first write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from store import Store
from store.errors import NoSpaceError, is_no_space
from store.fs import FileSystem
from store.status import Free
from store.text import in_bytes

_MEMO: Final = 128 << 10
"""Bytes of an empty memo and of its journal: 30 blobs made one of 32 KiB."""
_DOCUMENT_FILES: Final = 24
"""The store's and the tag's directories, the memo, a writer's folder, manifest, origin."""
_PER_LAYER: Final = 1024
"""Bytes of a manifest for each layer, of its pin, and of what the memo notes."""


def check_space(store: Store, sizes: Iterable[int]) -> None:
    """Make sure that blobs of these sizes fit on the file system of the store.

    Raises:
        NoSpaceError: they do not; nothing was written.
    """
    check_room(store.fs, store.layout.root, sizes, "import")


def check_room(fs: FileSystem, root: Path, sizes: Iterable[int], what: str) -> None:
    """Make sure that files of these sizes fit on the file system of a place.

    Args:
        root: the place, which need not exist yet.
        what: needs the room, for people.

    Raises:
        NoSpaceError: they do not; nothing was written.
    """
    free = _free(fs, root)
    needed = _needed(sizes, free.block)
    if needed.nbytes > free.nbytes:
        raise NoSpaceError(
            f"the {what} needs up to {needed.told}, `{root}` has "
            f"{in_bytes(free.nbytes)} free; nothing was written",
            code="E_NOSPACE",
        )
    if free.files is not None and needed.files > free.files:
        raise NoSpaceError(
            f"the {what} needs up to {needed.files:,} files, the file system of `{root}` has "
            f"{free.files:,} left; nothing was written",
            code="E_NOSPACE",
        )


@contextlib.contextmanager
def telling_space(store: Store, sizes: Iterable[int]) -> Iterator[None]:
    """Say what blobs of these sizes need when the disk is full, as `telling_room`."""
    with telling_room(store.fs, store.layout.root, sizes, "import"):
        yield


@contextlib.contextmanager
def telling_room(fs: FileSystem, root: Path, sizes: Iterable[int], what: str) -> Iterator[None]:
    """Say what files of these sizes need when the disk is full after all.

    Somebody else may take the space after `check_space`; quotas and limits it cannot see.

    Raises:
        NoSpaceError: in place of an `OSError` that says as much without numbers.
    """
    try:
        yield
    except OSError as error:
        if not is_no_space(error):
            raise
        free = _free(fs, root)
        needed = _needed(sizes, free.block)
        where = f"`{error.filename}`: " if error.filename else ""
        files = "" if free.files is None else f" and {free.files:,} files"
        raise NoSpaceError(
            f"{where}{error.strerror}; the {what} needs up to {in_bytes(needed.nbytes)} and "
            f"{needed.files:,} files, `{root}` has {in_bytes(free.nbytes)}{files} free now",
            code="E_NOSPACE",
        ) from error


class _Needed(NamedTuple):
    """Room on a file system.

    Attributes:
        nbytes: of whole blocks, with what is written beside the content.
        content: bytes of the blobs or files themselves.
    """

    nbytes: int
    files: int
    content: int

    @property
    def told(self) -> str:
        """What is needed, in words."""
        return f"{in_bytes(self.nbytes)}, {self.content:,} of them content"


def _needed(sizes: Iterable[int], block: int) -> _Needed:
    count = nbytes = content = 0
    for size in sizes:
        # A file takes whole blocks: 100 000 small tensors are 400 MB of 4 KiB blocks.
        nbytes += -(-size // block) * block + _PER_LAYER
        content += size
        count += 1
    nbytes += _MEMO + _DOCUMENT_FILES * block
    return _Needed(nbytes, count + _DOCUMENT_FILES, content)


def _free(fs: FileSystem, root: Path) -> Free:
    there = next(path for path in (root, *root.parents) if fs.status(path) is not None)
    return fs.free(there)
