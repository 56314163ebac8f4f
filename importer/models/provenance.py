"""How a stored model was made, and so how to make it again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from importer.recipes.document import from_document
from importer.recipes.recipe import PLAIN
from importer.recipes.replay import RecipeOptions, options_for
from importer.request import ImportRequest
from importer.sources.hub_cache import repository_of
from importer.sources.location import HubRepository, Source, StoredModel
from importer.sources.stored.record import NO_RECORD, ModelRecord, parse_record
from store import Digest, IngotError, Layer, MediaType, ModelName, Store, limits
from store.catalog import StoredManifest
from store.errors import UsageError
from store.names import DEFAULT_HOST
from store.origins import Place

if TYPE_CHECKING:
    from importer.registry.reference import Reference


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of how a model was made.

    Nothing of it need be true: the record may be damaged, or another program's. Whatever is
    made from it has to have the digest that the model names.

    Attributes:
        sources: what the model can be made from again, the nearest first.
        record: as the configuration holds it.
        report: whether the model has a report of its quality.
        registry: that has its blobs, or None where nothing says so.
        was_pulled: whether it is noted that it came from there; else its name says so.
        is_recipe_lost: whether nothing reliable tells by which recipe it was made: its
            configuration is damaged, and the store has no copy of it.
    """

    name: ModelName
    sources: tuple[Source, ...]
    record: ModelRecord = NO_RECORD
    report: bool = False
    registry: Reference | None = None
    was_pulled: bool = False
    is_recipe_lost: bool = False

    def requests(self, threads: int) -> tuple[ImportRequest, ...]:
        """Return the imports that should give the same blobs, one for each source.

        Raises:
            InputError: what the record calls a recipe is not one.
        """
        document, variant = self.record.recipe, self.record.variant
        # Other programs record none; their models can only be as plain as the source.
        recipe = PLAIN if document is None else from_document(document)
        return tuple(
            ImportRequest(
                self.name,
                source,
                recipe,
                variant,
                threads,
                as_arrays=self.record.prequantized is not None and not self.record.is_joined,
                unpack=self.record.is_unpacked,
            )
            for source in self.sources
        )

    def options(self) -> RecipeOptions | None:
        """Return the options that make the recipe again, or None where nothing tells them."""
        if self.record.recipe is None:
            return None
        try:
            return options_for(from_document(self.record.recipe), self.record)
        except IngotError:
            return None  # it has rotted


def provenance_of(
    store: Store, stored: StoredManifest, source: Source | None = None
) -> Provenance:
    """Return how a model was made.

    Args:
        store: that has the model.
        stored: its manifest.
        source: what to make it from, instead of what it was made from.

    Raises:
        IntegrityError: its manifest cannot be read.
    """
    manifest = stored.parse()
    record, is_lost = _record(store, stored, manifest.config)
    report = any(layer.media_type == MediaType.QUALITY for layer in manifest.layers)
    if source is not None:
        return Provenance(stored.name, (source,), record, report, is_recipe_lost=is_lost)
    origin = store.origins.get(stored.digest)
    return Provenance(
        stored.name,
        tuple(_sources(store, origin, record)),
        record,
        report,
        _registry(stored.name, origin),
        was_pulled=isinstance(origin, str),
        is_recipe_lost=is_lost,
    )


def _record(store: Store, stored: StoredManifest, config: Layer) -> tuple[ModelRecord, bool]:
    """Return what is known of how a model was made, and whether its recipe is lost."""
    copy = store.origins.config(stored.digest, config.digest)
    if copy is not None:
        return parse_record(copy), False  # a blob may have rotted and read as another recipe
    try:
        data = store.blobs.read(config.ref, limits.CONFIG_BYTES)
    except (IngotError, OSError):
        return NO_RECORD, True
    # What can still be read of a damaged one may be wrong, but no blob is made wrong by it.
    return parse_record(data), Digest.of(data) != config.digest


def _registry(name: ModelName, origin: Place | None) -> Reference | None:
    # A model of the default host need not be from there: nobody is asked for it by its name.
    if not isinstance(origin, str) and name.host == DEFAULT_HOST:
        return None
    from importer.registry.reference import Reference  # noqa: PLC0415 - what `show` does without

    try:
        return Reference.parse(origin) if isinstance(origin, str) else Reference.of(name)
    except UsageError:
        return None  # it has rotted, or no registry admits it


def _sources(store: Store, local: Place | None, record: ModelRecord) -> Iterator[Source]:
    if record.model is not None:
        yield from map(StoredModel, _names_of(store, record.model))
    if isinstance(local, Path):
        yield local
    if record.hub is not None:
        yield record.hub
    elif record.is_empty and isinstance(local, Path) and (named := repository_of(local)):
        # The record is lost; the cache's name tells as much.
        with contextlib.suppress(IngotError):
            yield HubRepository.checked(*named)


def _names_of(store: Store, manifest: Digest) -> Iterator[ModelName]:
    """Yield a name of the model with this manifest, if it still has one."""
    for entry in store.catalog.entries():
        if entry.name is None:
            continue
        with contextlib.suppress(IngotError, OSError):
            if store.catalog.get(entry.name).digest == manifest:
                yield entry.name
                return
