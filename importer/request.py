"""What a user asked for: a source, a name and what is to become of the tensors."""

from __future__ import annotations

from dataclasses import dataclass

from importer.recipes.options import QuantizeOptions
from importer.recipes.recipe import PLAIN, Recipe
from importer.sources.location import Source
from store import ModelName


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What the user asked for.

    Attributes:
        source: a directory or file, a repository on the Hub, or a stored model.
        recipe: what becomes of the tensors, or what to make a recipe of.
        variant: of the weights, such as `fp16`, or None.
        threads: that write blobs, if `max_memory`, in bytes, suffices for so many.
        rehash: believe nothing that the store noted earlier.
        strict: refuse a plan in which a tensor does not fit its rule.
        report: measure the quantized tensors, and store what was found.
        as_arrays: keep quantized weights as the arrays that they are stored as, as models of
            earlier versions have them.
        unpack: take tensors out of files that would be kept whole if nothing were asked.
    """

    name: ModelName
    source: Source
    recipe: Recipe | QuantizeOptions = PLAIN
    variant: str | None = None
    threads: int = 1
    max_memory: int | None = None
    rehash: bool = False
    strict: bool = False
    report: bool = False
    as_arrays: bool = False
    unpack: bool = False

    @property
    def takes_apart(self) -> bool:
        """Whether tensors are wanted, and not files that programs load as they are."""
        return self.unpack or self.recipe not in (PLAIN, QuantizeOptions())
