"""The path or address that each model came from: private to this store, for show and repair."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from store.digest import Digest
from store.durable import write_small
from store.errors import is_exhausted
from store.fs import FileSystem
from store.paths import Layout
from store.status import Kind

_LONGEST: Final = 1 << 16
"""Bytes of a path; the kernel's limit is 4096."""
_MODE: Final = 0o600
_PLACE: Final = re.compile(rb"[a-z]+://[!-~]+")

Origin = Path | str
"""A local path, or the address of another place, such as `oci://ghcr.io/me/llama:int4`."""


class Origins:
    """The files `origins/sha256-<hex>` of a store, named by the digest of a manifest.

    Each holds the bytes of one absolute path, which need not be Unicode, or an address, which
    is ASCII. Two names of one manifest share it, and gc removes it when no name is left.
    """

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self.fs: Final = fs
        self.layout: Final = layout

    def get(self, manifest: Digest) -> Origin | None:
        """Return where a model came from, or None if that is not known.

        Raises:
            OSError: the process has no descriptors or memory left.
        """
        try:
            file = self.fs.open(self._path(manifest))
            try:
                source = self.fs.read(file, _LONGEST, 0)
            finally:
                self.fs.close(file)
        except OSError as error:
            if is_exhausted(error):
                raise
            return None  # not known: the model is whole without it
        if _PLACE.fullmatch(source):
            return source.decode("ascii")
        # No path has a NUL, and a relative one would mean something else to each process.
        if not os.path.isabs(source) or b"\0" in source:
            return None
        return Path(os.fsdecode(source))

    def write(self, partial: Path, source: Origin) -> None:
        """Write the new file `partial` for `put`, durably."""
        write_small(self.fs, partial, os.fsencode(_absolute(source)), mode=_MODE)

    def has(self, manifest: Digest, source: Origin) -> bool:
        """Return whether it is noted that a model came from `source`."""
        return self.get(manifest) == _absolute(source)

    def put(self, manifest: Digest, source: Origin, partial: Path) -> None:
        """Note durably where a model came from. The caller holds the shared lock.

        Args:
            manifest: of the model.
            source: where it came from.
            partial: a file from `write`, or where one would be if there was none because the
                path was noted already, which gc may have removed since.
        """
        if not self.has(manifest, source):
            if self.fs.status(partial) is None:
                self.write(partial, source)
            self.fs.rename(partial, self._path(manifest))
        # Also of a file that is there: whoever noted it may have died before this.
        self.fs.sync_directory(self.layout.origins)

    def digests(self) -> Iterator[tuple[str, Digest | None]]:
        """List `origins/`: each file name, and the manifest's digest where the name is one."""
        if self.fs.status(self.layout.origins) is None:
            return
        for name, kind in self.fs.entries(self.layout.origins):
            yield name, Digest.from_file_name(name) if kind is not Kind.DIRECTORY else None

    def _path(self, manifest: Digest) -> Path:
        return self.layout.origins / manifest.file_name


def _absolute(source: Origin) -> Origin:
    return source.absolute() if isinstance(source, Path) else source
