"""Stand-ins for files on the Hub: of the same size, with the bytes that a plan reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from importer.http.together import together
from importer.hub.download import read_range, write_range
from importer.hub.repository import HubClient, HubFile
from importer.sources.containers import FORMATS
from importer.sources.file import SourceFile, find
from importer.sources.roles import FileRole

_HEAD_BYTES: Final = 128 << 10
"""Of a weights file, fetched by the first request: most headers are shorter."""


def stand_in(hub: HubClient, file: HubFile, role: FileRole, location: Path) -> SourceFile:
    """Make a sparse file in which only the header of a weights file is filled in.

    Args:
        hub: the repository.
        file: of it; the header is fetched only if it holds weights.
        role: of the file.
        location: where nothing is yet.

    Raises:
        IngotError: the header is malformed, or cannot be had.
        OSError: writing failed.
    """
    with location.open("xb") as target:
        if role.is_weights:
            ranges = _Ranges(hub, file, target)
            FORMATS[role.format].fetch_header(file.path, file.size, ranges.read)
        target.truncate(file.size)
    made = find(file.path, location, role, file.sha256)
    return replace(made, rest=_Rest(hub, file, location))


class _Rest:
    """What a stand-in lacks; its identity stays as it was."""

    def __init__(self, hub: HubClient, file: HubFile, location: Path) -> None:
        self._hub, self._file, self._location = hub, file, location

    def fetch(self, ranges: Iterable[range]) -> None:
        """Fetch some ranges, several at once."""
        with self._location.open("r+b", buffering=0) as target:
            seen = os.fstat(target.fileno())
            together(lambda one: self._fill(target, one), list(ranges), self._hub.stop)
            os.utime(target.fileno(), ns=(seen.st_atime_ns, seen.st_mtime_ns))

    def _fill(self, target: IO[bytes], wanted: range) -> None:
        write_range(self._hub, self._file, wanted.start, wanted.stop, target.fileno())


class _Ranges:
    """Ranges of a file on the Hub, each fetched once and written to the stand-in."""

    def __init__(self, hub: HubClient, file: HubFile, target: IO[bytes]) -> None:
        self._hub = hub
        self._file = file
        self._target = target
        self._head = bytearray()

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to before `end`."""
        have = len(self._head)
        if start > max(have, _HEAD_BYTES):
            return self._fetch(start, end)
        if end > have:
            least = min(self._file.size, _HEAD_BYTES)
            self._head += self._fetch(have, max(end, least))
        return bytes(self._head[start:end])

    def _fetch(self, start: int, end: int) -> bytes:
        data = read_range(self._hub, self._file, start, end)
        self._target.seek(start)
        self._target.write(data)
        return data
