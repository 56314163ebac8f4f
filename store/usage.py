"""What is in a store and how much room it takes: models, what gc frees, caches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from store.catalog import StoredManifest
from store.errors import IngotError, in_words
from store.manifest import Manifest
from store.mark import EMPTY, GcPlan, Marking
from store.names import ModelName
from store.sharing import Partner, Sharing, by_size, mentioned_in, sharing_among
from store.store import Store

_MEMO: Final = ("", "-journal", "-wal", "-shm")


class ModelUsage(NamedTuple):
    """What one name takes.

    Attributes:
        apparent: bytes of all blobs that it names, each counted once.
    """

    stored: StoredManifest
    apparent: int
    sharing: Sharing


class Usage(NamedTuple):
    """What a store takes.

    Attributes:
        models: sorted by name.
        blobs: how many are named by models.
        nbytes: of these, each counted once however many models share it.
        free: what gc would remove now.
        owners: the names that needed blobs which gc would remove.
        memo: bytes of the cache of what was seen.
        problems: manifests that cannot be read, which would stop gc.
    """

    models: tuple[ModelUsage, ...]
    blobs: int
    nbytes: int
    free: GcPlan
    owners: tuple[Partner, ...]
    memo: int
    problems: tuple[str, ...]

    @property
    def apparent(self) -> int:
        """Bytes that the models would take if they shared nothing."""
        return sum(model.apparent for model in self.models)

    @property
    def partial(self) -> int:
        """Bytes of files that imports did not finish."""
        return sum(writer.nbytes for writer in self.free.unfinished)

    @property
    def quarantined(self) -> int:
        """Bytes of corrupt blobs that were set aside."""
        return sum(nbytes for _, nbytes in self.free.quarantined)

    @property
    def unnamed(self) -> int:
        """Bytes of blobs that no model and no living import needs."""
        return sum(blob.size for blob in self.free.blobs)


def usage_of(store: Store) -> Usage:
    """Return what a store takes; reads manifests and looks at files, and locks nothing.

    What imports do meanwhile may be in it or not.
    """
    problems: list[str] = []
    found = sorted(_models(store, problems), key=lambda pair: str(pair[0].name))
    pairs = [(stored.name, manifest) for stored, manifest in found]
    refs = {ref for _, manifest in found for ref in manifest.blobs}
    models = [
        ModelUsage(stored, manifest.nbytes, sharing)
        for (stored, manifest), sharing in zip(found, sharing_among(pairs), strict=True)
    ]
    free = EMPTY if problems else Marking(store, frozenset()).run(None)
    memo = sum(
        seen.size
        for suffix in _MEMO
        if (seen := store.fs.status(store.layout.root / f"{store.layout.memo.name}{suffix}"))
    )
    nbytes, owners = sum(ref.size for ref in refs), former_owners(store.history.read(), free)
    return Usage(tuple(models), len(refs), nbytes, free, owners, memo, tuple(problems))


def former_owners(history: Iterable[StoredManifest], plan: GcPlan) -> tuple[Partner, ...]:
    """Return the names that needed blobs which gc removes, with the bytes of each.

    Args:
        history: what names stood for before they were removed or replaced. A blob that several
            of them needed counts for each.
        plan: of gc.
    """
    sizes = {blob.digest.hex: blob.size for blob in plan.blobs}
    found: dict[ModelName, set[str]] = {}
    for former in history:
        needed = mentioned_in(former.data) & sizes.keys()
        if needed:
            found.setdefault(former.name, set()).update(needed)
    return by_size(
        Partner(name, sum(sizes[digest] for digest in digests))
        for name, digests in found.items()
    )


def _models(store: Store, problems: list[str]) -> Iterator[tuple[StoredManifest, Manifest]]:
    for entry in store.catalog.entries():
        if entry.name is None:
            path = os.fspath(entry.path.relative_to(store.layout.root))
            problems.append(f"`{path}` is not a manifest: {entry.why}")
            continue
        try:
            if (stored := store.catalog.find(entry.name)) is not None:
                yield stored, stored.parse()
        except (IngotError, OSError) as error:
            problems.append(in_words(error))
