"""A model that comes from another place: which of its blobs are here, and its name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from store.blobs import BlobRef
from store.catalog import StoredManifest
from store.names import ModelName
from store.origins import Origin
from store.store import Store
from store.writer import Writer

_BATCH: Final = 200
"""Blobs that are pinned at once; gc waits meanwhile."""


def reused(
    writer: Writer, store: Store, refs: Iterable[BlobRef]
) -> Iterator[tuple[BlobRef, bool]]:
    """Pin blobs, and yield each with whether the store has it and it is good.

    One that another program has put there is hashed, which is less work than to move it.
    """
    rest = iter(refs)
    while batch := list(itertools.islice(rest, _BATCH)):
        for ref, is_known in zip(batch, writer.reuse(batch), strict=True):
            yield ref, is_known or store.blobs.vouch(ref)


def set_name(
    writer: Writer, name: ModelName, data: bytes, origin: Origin | None = None
) -> StoredManifest | None:
    """Publish a manifest byte for byte; return what the name stood for before.

    Args:
        writer: that has pinned its blobs.
        name: of the model.
        data: of the manifest.
        origin: what the model came from, if that is to be noted.

    Raises:
        BlobsGoneError: blobs of it are not there; the name is as it was.
    """
    return writer.copy(StoredManifest(name, data, 0), name, origin)
