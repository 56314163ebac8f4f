"""How a stored model was made, and so how to make it again: the one reader of that record."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from importer.codecs.spec import KEEP
from importer.recipes.document import from_document
from importer.recipes.recipe import PLAIN, Misaligned, Recipe
from importer.recipes.toml_file import presets, read_recipe
from importer.request import ImportRequest
from importer.sources.hub_cache import repository_of
from importer.sources.location import HubRepository
from store import IngotError, Layer, MediaType, ModelName, Store, limits
from store.catalog import StoredManifest
from store.json import Json, JsonError, loads

_ROLES: Final = frozenset({"--embedding", "--lm-head", "--vision"})
_RULES_ALONE: Final = "rules"
"""The name of a recipe that is nothing but the user's rules."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of how a model was made.

    Nothing of it need be true: the record may be damaged, or by another hand. What is made
    by it is measured by its digest.

    Attributes:
        sources: where it may be made from again, the nearest first.
        variant: of the weights.
        recipe: as the configuration holds it, or None where nothing says it.
        report: whether the model has a report of its quality.
    """

    name: ModelName
    sources: tuple[Path | HubRepository, ...]
    variant: str | None
    recipe: Mapping[str, Json] | None
    report: bool = False

    def requests(self, threads: int) -> tuple[ImportRequest, ...]:
        """The imports that should give the same blobs, one for each source.

        Raises:
            InputError: the recipe is none.
        """
        # What others made has none; it can only be as plain as the source.
        recipe = PLAIN if self.recipe is None else from_document(self.recipe)
        return tuple(
            ImportRequest(self.name, source, recipe, self.variant, threads)
            for source in self.sources
        )

    @property
    def command(self) -> str:
        """What the user types to make the model again; SOURCE where none is known."""
        words = ["ingot", "create", str(self.name)]
        words.append(str(self.sources[-1]) if self.sources else "SOURCE")
        if self.variant is not None:
            words += ["--variant", self.variant]
        if self.recipe is not None:
            try:
                words += _flags(from_document(self.recipe))
            except IngotError:
                words += ["--recipe", "FILE"]  # it has rotted
        if self.report:
            words.append("--report")
        return shlex.join(words)


def _flags(recipe: Recipe) -> Iterator[str]:
    """The flags of `create` that make a recipe; FILE stands for one of the user's."""
    for rule in recipe.rules:
        by = rule.reason.removeprefix("asked for by ")
        target = KEEP if rule.target is None else str(rule.target)
        if by == "--rule":
            yield from (by, f"{rule.match[0]}={target}")
        elif by in _ROLES:
            yield from (by, target)
    if recipe.name in presets():
        if read_recipe(recipe.name).asks and recipe.type:
            yield from ("-q", recipe.type)
        yield from ("--recipe", recipe.name)
    elif recipe.name not in {PLAIN.name, _RULES_ALONE}:
        yield from ("--recipe", "FILE")
    if recipe.misaligned is not Misaligned.KEEP:
        yield from ("--on-misaligned", str(recipe.misaligned))
    if recipe.stacked:
        yield from ("--experts", "stacked")
    if recipe.allow_nonfinite:
        yield "--allow-nonfinite"


def provenance_of(
    store: Store, stored: StoredManifest, source: Path | None = None
) -> Provenance:
    """Tell how a model was made.

    Args:
        store: where it is.
        stored: its manifest.
        source: to make it from instead of where it was made from.

    Raises:
        IntegrityError: its manifest cannot be read.
    """
    manifest = stored.parse()
    ours = _record(store, manifest.config)
    variant, recipe = ours.get("variant"), ours.get("recipe")
    return Provenance(
        stored.name,
        tuple(_sources(store, stored, ours)) if source is None else (source,),
        variant if isinstance(variant, str) else None,
        recipe if isinstance(recipe, dict) else None,
        any(layer.media_type == MediaType.QUALITY for layer in manifest.layers),
    )


def _record(store: Store, config: Layer) -> Mapping[str, Json]:
    # Also of a damaged blob, in which most of the record may still be right.
    try:
        document = loads(store.blobs.read(config.ref, limits.CONFIG_BYTES), floats=True)
    except (JsonError, IngotError, OSError):
        return {}
    ours = document.get("ingot") if isinstance(document, dict) else None
    return ours if isinstance(ours, dict) else {}


def _sources(
    store: Store, stored: StoredManifest, ours: Mapping[str, Json]
) -> Iterator[Path | HubRepository]:
    local = store.memo.origin(stored.digest)
    if local is not None:
        yield local
    hub = ours.get("hub")
    named = (hub.get("repository"), hub.get("commit")) if isinstance(hub, dict) else None
    if named is None and not ours and local is not None:
        named = repository_of(local)  # the record is lost; the cache's name tells as much
    if named is None:
        return
    repository, commit = named
    if isinstance(repository, str) and isinstance(commit, str):
        try:
            yield HubRepository.checked(repository, commit)
        except IngotError:
            return
