"""What two stored models record of themselves, where nothing else of them differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from importer.sources.location import StoredModel
from store import limits
from store.errors import IngotError
from store.json import Json, JsonError, loads

if TYPE_CHECKING:
    from importer.sources.location import Source
    from store import Store
    from store.digest import Digest


class Recorded(NamedTuple):
    """Two models that are equal and have two digests.

    Attributes:
        a: the digest of one.
        b: of the other.
        keys: of their configurations that differ.
    """

    a: Digest
    b: Digest
    keys: tuple[str, ...]


def recorded(store: Store, a: Source, b: Source) -> Recorded | None:
    """Return what makes the digests of two stored models differ, or None where nothing does."""
    if not isinstance(a, StoredModel) or not isinstance(b, StoredModel):
        return None
    found = [store.catalog.get(one.manifest) for one in (a, b)]
    if found[0].digest == found[1].digest:
        return None
    keys: tuple[str, ...] = ()
    try:
        first, second = (
            loads(store.blobs.read(one.parse().config.ref, limits.CONFIG_BYTES))
            for one in found
        )
    except (IngotError, JsonError):
        first = second = None  # which is for `verify` to say
    if isinstance(first, dict) and isinstance(second, dict):
        keys = tuple(sorted(_differing(first, second)))
    return Recorded(found[0].digest, found[1].digest, keys)


def _differing(a: dict[str, Json], b: dict[str, Json]) -> set[str]:
    keys = {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}
    ours, theirs = a.get("ingot"), b.get("ingot")
    if "ingot" in keys and isinstance(ours, dict) and isinstance(theirs, dict):
        keys.remove("ingot")
        keys |= {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    return keys
