"""Hold the sources of an import: they must be the same when it ends as when it began."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from importer.sources.file import SourceFile, changed, is_unchanged
from store import BlobRef, Digest, Store
from store.errors import IntegrityError
from store.parallel import Stop, each
from store.quarantine import examine
from store.writer import Writer

_AT_ONCE: Final = 256
"""Blobs that are pinned under one lock, which gc waits for: that takes 5 ms."""

_Item = TypeVar("_Item")


def hold_sources(
    store: Store, writer: Writer, files: Iterable[SourceFile], threads: int
) -> None:
    """Keep gc off blobs, and hash those that nobody has seen to be good.

    Args:
        store: that has the blobs.
        writer: whose pins keep them.
        files: blobs, as files of a source.
        threads: that hash.

    Raises:
        IntegrityError: one is damaged or gone; what would be made of it is wrong.
    """
    refs = list(dict.fromkeys(_refs(files)))
    unseen: list[BlobRef] = []
    for some in _batches(refs):
        vouched = writer.reuse(some)
        unseen += [ref for ref, is_good in zip(some, vouched, strict=True) if not is_good]
    stop = Stop()
    for suspect in each(lambda ref: examine(store, ref.digest, stop), unseen, threads, stop):
        if suspect is not None:
            raise IntegrityError(
                f"blob {suspect.digest} of the stored model is damaged",
                code="E_BLOB_DIGEST",
            )


def check_sources(
    store: Store, writer: Writer, files: Iterable[SourceFile], threads: int
) -> None:
    """Check that files are still those that were scanned, before a model of them is published.

    Args:
        store: that has the blobs among them.
        writer: that holds these.
        files: of a source.
        threads: that hash.

    Raises:
        InputError: one has changed.
        IntegrityError: another file took the place of a blob, and is not that blob.
    """
    others = [file for file in files if not is_unchanged(file)]
    for file in others:
        if not file.is_blob:
            changed(file)
    hold_sources(store, writer, others, threads)


def _refs(files: Iterable[SourceFile]) -> Iterator[BlobRef]:
    for file in files:
        digest = Digest.from_file_name(file.location.name)
        assert digest is not None, f"{file.location} is not a blob"
        yield BlobRef(digest, file.size)


def _batches(items: Iterable[_Item]) -> Iterator[Sequence[_Item]]:
    rest = iter(items)
    while some := list(itertools.islice(rest, _AT_ONCE)):
        yield some
