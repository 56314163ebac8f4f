"""Fetch from the Hub what some blobs are made from, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from importer.engine.reuse import extents_of
from importer.planning.plan import Job
from importer.sources.file import SourceFile

_APART: Final = 1 << 16
"""Bytes between two ranges that are fetched with them: another request takes longer."""
_MUCH: Final = 2
"""Whole files, which the cache keeps, if more than one byte in so many is needed."""


def lacks_much(jobs: Iterable[Job]) -> bool:
    """Return whether most of the files is lacking that some blobs are made from."""
    lacking = _lacking(jobs)
    nbytes = sum(len(one) for _, ranges in lacking.values() for one in ranges)
    return nbytes * _MUCH > sum(file.size for file, _ in lacking.values())


def fetch_parts(jobs: Iterable[Job]) -> None:
    """Fetch what is lacking of the files that some blobs are made from.

    Raises:
        IngotError: it cannot be had.
        OSError: writing failed.
    """
    for file, ranges in _lacking(jobs).values():
        assert file.rest is not None, f"nothing fetches `{file.path}`"
        file.rest.fetch(ranges)


def _lacking(jobs: Iterable[Job]) -> Mapping[str, tuple[SourceFile, list[range]]]:
    """Return the ranges of each file that is not there, in order and apart, by its path."""
    wanted: dict[str, tuple[SourceFile, list[range]]] = {}
    for job in jobs:
        for file, offset, nbytes in extents_of(job):
            if file.rest is not None and nbytes:
                _, ranges = wanted.setdefault(file.path, (file, []))
                ranges.append(range(offset, offset + nbytes))
    return {path: (file, _joined(ranges)) for path, (file, ranges) in wanted.items()}


def _joined(ranges: Iterable[range]) -> list[range]:
    found: list[range] = []
    for one in sorted(ranges, key=lambda one: one.start):
        if found and one.start <= found[-1].stop + _APART:
            found[-1] = range(found[-1].start, max(found[-1].stop, one.stop))
        else:
            found.append(one)
    return found
