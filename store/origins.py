"""What each model came from: private to this store, for show and repair."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from store.digest import Digest
from store.durable import write_small
from store.errors import is_exhausted
from store.fs import FileSystem
from store.paths import Layout
from store.status import Kind

_LONGEST: Final = 1 << 16
"""Bytes of a path; the kernel's limit is 4096."""
_CONFIG: Final = 1 << 20
"""Bytes of a configuration that is kept; of a model of 200 shards it has 40 000."""
_MODE: Final = 0o600
_PLACE: Final = re.compile(rb"[a-z]+://[!-~]+")
_END: Final = b"\0"
"""Of a place. No path has one, so that files of one path alone are read as ever."""

Place = Path | str
"""A local path, or the address of another place, such as `oci://ghcr.io/me/llama:int4`."""


class Origin(NamedTuple):
    """What is noted of how a model came to be.

    Attributes:
        place: where it came from, or None where that is not known or its record tells it.
        config: a copy of its configuration, whose record tells how it was made; or empty.
    """

    place: Place | None = None
    config: bytes = b""


class Origins:
    """The files `origins/sha256-<hex>` of a store, named by the digest of a manifest.

    Each holds the bytes of one absolute path, which need not be Unicode, or an address, which
    is ASCII; then NUL and the bytes of the configuration, where they are known. Two names of
    one manifest share it, and gc removes it when no name is left.
    """

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self.fs: Final = fs
        self.layout: Final = layout

    def get(self, manifest: Digest) -> Place | None:
        """Return where a model came from, or None if that is not known.

        Raises:
            OSError: the process has no descriptors or memory left.
        """
        return self.read(manifest).place

    def config(self, manifest: Digest, config: Digest) -> bytes | None:
        """Return the copy of a model's configuration, or None if there is no good one.

        Raises:
            OSError: the process has no descriptors or memory left.
        """
        found = self.read(manifest).config
        return found if found and Digest.of(found) == config else None

    def read(self, manifest: Digest) -> Origin:
        """Return what is noted of a model.

        Raises:
            OSError: the process has no descriptors or memory left.
        """
        try:
            file = self.fs.open(self._path(manifest))
            try:
                data = self.fs.read(file, _LONGEST + _CONFIG, 0)
            finally:
                self.fs.close(file)
        except OSError as error:
            if is_exhausted(error):
                raise
            return Origin()  # not known: the model is whole without it
        place, end, config = data.partition(_END)
        return Origin() if end and not config else Origin(_place(place), config)

    def write(self, partial: Path, manifest: Digest, origin: Origin) -> None:
        """Write the new file `partial` for `put`, durably."""
        place, config = self._with(manifest, origin)
        data = os.fsencode(place) if place is not None else b""
        if config:
            data += _END + config
        write_small(self.fs, partial, data, mode=_MODE)

    def has(self, manifest: Digest, origin: Origin) -> bool:
        """Return whether all that an origin tells of a model is noted."""
        return self.read(manifest) == self._with(manifest, origin)

    def put(self, manifest: Digest, origin: Origin, partial: Path) -> None:
        """Note durably what a model came from. The caller holds the shared lock.

        Args:
            manifest: of the model.
            origin: what is known; what it does not tell stays as it was noted.
            partial: a file from `write`, or where one would be if there was none because all
                was noted already, which gc may have removed since.
        """
        if not self.has(manifest, origin):
            if self.fs.status(partial) is None:
                self.write(partial, manifest, origin)
            self.fs.rename(partial, self._path(manifest))
        # Also of a file that is there: whoever noted it may have died before this.
        self.fs.sync_directory(self.layout.origins)

    def digests(self) -> Iterator[tuple[str, Digest | None]]:
        """List `origins/`: each file name, and the manifest's digest where the name is one."""
        if self.fs.status(self.layout.origins) is None:
            return
        for name, kind in self.fs.entries(self.layout.origins):
            yield name, Digest.from_file_name(name) if kind is not Kind.DIRECTORY else None

    def _with(self, manifest: Digest, origin: Origin) -> Origin:
        """Return what is to be noted: what an origin tells, and else what is noted already."""
        known = self.read(manifest)
        place = origin.place.absolute() if isinstance(origin.place, Path) else origin.place
        config = origin.config if len(origin.config) <= _CONFIG else b""
        return Origin(known.place if place is None else place, config or known.config)

    def _path(self, manifest: Digest) -> Path:
        return self.layout.origins / manifest.file_name


def _place(data: bytes) -> Place | None:
    if _PLACE.fullmatch(data):
        return data.decode("ascii")
    # A relative path would mean something else to each process.
    return Path(os.fsdecode(data)) if os.path.isabs(data) else None
