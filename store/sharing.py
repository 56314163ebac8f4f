"""Which blobs a model has alone, and which it shares with whom."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from store.blobs import BlobRef
from store.catalog import Catalog
from store.errors import IngotError
from store.manifest import Manifest
from store.names import ModelName

_DIGEST: Final = re.compile(rb"sha256:([0-9a-f]{64})")


class Partner(NamedTuple):
    """A model that has blobs in common with another.

    Attributes:
        nbytes: of these blobs.
    """

    name: ModelName
    nbytes: int


class Sharing(NamedTuple):
    """What a model takes of the store.

    Attributes:
        own: bytes of the blobs that no other name needs: what removing it frees.
        shared: bytes of the others.
        partners: the other names, those with the most bytes first.
    """

    own: int
    shared: int
    partners: tuple[Partner, ...]


def sharing_of(catalog: Catalog, name: ModelName | None, manifest: Manifest) -> Sharing:
    """Return what a model has alone and what with others.

    Args:
        catalog: that the model is in.
        name: of the model; another name of the same manifest is another model here. None for
            one that no name stands for any more.
        manifest: of the model.
    """
    sizes = {ref.digest.hex: ref.size for ref in manifest.blobs}
    partners, shared = [], set()
    for other, digests in _mentioned(catalog, {name} if name else ()):
        common = digests & sizes.keys()
        if common:
            partners.append(Partner(other, sum(sizes[digest] for digest in common)))
            shared |= common
    nbytes = sum(sizes[digest] for digest in shared)
    return Sharing(sum(sizes.values()) - nbytes, nbytes, by_size(partners))


def sharing_among(models: Sequence[tuple[ModelName, Manifest]]) -> list[Sharing]:
    """Return for each of all models of a store what it has alone and what with others."""
    owners: dict[str, tuple[int, list[int]]] = {}
    for number, (_, manifest) in enumerate(models):
        for ref in set(manifest.blobs):
            owners.setdefault(ref.digest.hex, (ref.size, []))[1].append(number)
    nbytes: Counter[tuple[int, ...]] = Counter()
    for size, found in owners.values():
        nbytes[tuple(found)] += size
    own: Counter[int] = Counter()
    shared: Counter[int] = Counter()
    common: dict[int, Counter[int]] = {}
    for found_by, size in nbytes.items():
        if len(found_by) == 1:
            own[found_by[0]] += size
            continue
        for number in found_by:
            shared[number] += size
            common.setdefault(number, Counter()).update(
                {other: size for other in found_by if other != number}
            )
    return [
        Sharing(
            own[number],
            shared[number],
            by_size(
                Partner(models[other][0], size)
                for other, size in common.get(number, {}).items()
            ),
        )
        for number in range(len(models))
    ]


def only_of(catalog: Catalog, names: Collection[ModelName]) -> dict[str, BlobRef]:
    """Return the blobs that some names need and no other name does.

    Manifests that cannot be read are passed over: nobody knows what they need.
    """
    found: dict[str, BlobRef] = {}
    for name in names:
        with contextlib.suppress(IngotError, OSError):
            if (stored := catalog.find(name)) is not None:
                found |= {ref.digest.hex: ref for ref in stored.parse().blobs}
    for _, digests in _mentioned(catalog, names):
        for digest in digests & found.keys():
            del found[digest]
    return found


def is_readable(catalog: Catalog, name: ModelName) -> bool:
    """Return whether it is known which blobs a name needs, or that it stands for nothing."""
    try:
        stored = catalog.find(name)
        if stored is not None:
            stored.parse()
    except (IngotError, OSError):
        return False
    return True


def mentioned_in(manifest: bytes) -> set[str]:
    """Return the digests that a manifest mentions, as hexadecimal digits."""
    return {digits.decode() for digits in _DIGEST.findall(manifest)}


def _mentioned(
    catalog: Catalog, but: Collection[ModelName]
) -> Iterator[tuple[ModelName, set[str]]]:
    """Yield every other name with the digests that its manifest mentions.

    Searching takes a twentieth of the time of reading the document, and what mentions a blob in
    a manifest that is torn may need it.
    """
    for entry in catalog.entries():
        if entry.name is None or entry.name in but:
            continue
        with contextlib.suppress(IngotError, OSError):
            if (stored := catalog.find(entry.name)) is not None:
                yield entry.name, mentioned_in(stored.data)


def by_size(partners: Iterable[Partner]) -> tuple[Partner, ...]:
    """Return partners in the order in which they are told: the most bytes first."""
    return tuple(sorted(partners, key=lambda one: (-one.nbytes, str(one.name))))
