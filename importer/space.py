"""Does it fit? Bytes needed and free, compared before the first write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from store import Store
from store.errors import NoSpaceError

_DOCUMENTS: Final = 1 << 20
"""Configuration, manifest, pins and directories, generously."""
_PER_LAYER: Final = 512
"""Bytes of a manifest for each layer, and of its pin."""


def check_space(store: Store, sizes: Iterable[int]) -> None:
    """Make sure that blobs of these sizes fit on the file system of the store.

    Raises:
        NoSpaceError: they do not; nothing was written.
    """
    root = store.layout.root
    there = next(path for path in (root, *root.parents) if store.fs.status(path) is not None)
    free = store.fs.free(there)
    count = needed = 0
    for size in sizes:
        # A file takes whole blocks: 100 000 small tensors are 400 MB of 4 KiB blocks.
        needed += -(-size // free.block) * free.block + _PER_LAYER
        count += 1
    needed += _DOCUMENTS
    if needed > free.nbytes:
        raise NoSpaceError(
            f"the import needs up to {needed} bytes, `{root}` has {free.nbytes} free; nothing "
            "was written",
            code="E_NOSPACE",
            hint="Free some space (`ingot gc` may help), or name another disk with `--store`",
        )
    if free.files is not None and count > free.files:
        raise NoSpaceError(
            f"the import needs {count} files, the file system of `{root}` has {free.files} "
            "left; nothing was written",
            code="E_NOSPACE",
            hint="The file system is out of inodes: name another one with `--store`",
        )
