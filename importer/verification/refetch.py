"""Fetch damaged blobs from the registry that has them under their digests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from importer.events import Listener, Moving
from importer.http.together import together
from importer.registry.client import Manner, Registry
from importer.registry.download import download
from importer.registry.reference import Reference
from importer.registry.transfer import Tally
from store.blobs import BlobRef
from store.errors import AuthError, IngotError, NetworkError
from store.writer import Writer

_OF_ONE_BLOB: Final = frozenset({"E_REGISTRY_DAMAGED", "E_REGISTRY_NOT_FOUND"})


def refetch(
    registry: Reference, refs: Sequence[BlobRef], writer: Writer, listen: Listener
) -> tuple[list[BlobRef], list[str]]:
    """Put blobs into the store again; return those that are good, and why others are not.

    What the registry lacks, or has damaged, does not keep the others.

    Args:
        registry: a model in it whose repository has the blobs, whatever its tag stands for now.
        refs: the blobs.
        writer: of the repair, which takes these blobs alone.
        listen: told of the work.

    Raises:
        StorageError: a writer cannot go on.
        OSError: the store could not be written.
    """
    good: list[BlobRef] = []
    reasons: list[str] = []
    mutex = threading.Lock()
    tally = Tally(listen)
    tally.listen(Moving("pulling", str(registry), len(refs), sum(ref.size for ref in refs)))

    def fetch(ref: BlobRef) -> None:
        try:
            download(client, writer, ref, tally)
        except IngotError as error:
            if error.code not in _OF_ONE_BLOB:
                raise
            with mutex:
                reasons.append(str(error))
        else:
            with mutex:
                good.append(ref)

    try:
        client = Registry(registry, (f"repository:{registry.repository}:pull",), Manner())
    except IngotError as error:  # of the environment, such as a proxy that cannot be one
        return good, [str(error)]
    with closing(client):
        try:
            together(fetch, refs, client.stop)
        except (AuthError, NetworkError) as error:
            reasons.append(str(error))
    return good, sorted(reasons)
