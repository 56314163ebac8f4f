"""What a user asked for: a source, a name and what is to become of the tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Never

from importer.recipes.options import QuantizeOptions
from importer.recipes.recipe import PLAIN, Recipe
from importer.sources.location import Source, StoredModel
from store import Digest, Manifest, ModelName, Store
from store.errors import DiffersError

if TYPE_CHECKING:  # few models have one, and most commands know of requests
    from importer.recipes.budget import Budget


class Message(NamedTuple):
    """One message of the conversation that a model begins with.

    Attributes:
        role: `system`, `user` or `assistant`.
    """

    role: str
    content: str


_NOTHING: Final[Mapping[str, Never]] = MappingProxyType({})


class Use(NamedTuple):
    """How a model is used, as a Modelfile says it; what it does not say is empty.

    Attributes:
        template: of prompts, in Go's language of templates.
        licenses: texts.
        parameters: name -> number, flag, or texts.
        parser: Ollama's, of answers.
        renderer: Ollama's, of prompts.
        requires: the first version of Ollama that runs the model.
    """

    template: str = ""
    system: str = ""
    licenses: tuple[str, ...] = ()
    parameters: Mapping[str, object] = _NOTHING
    messages: tuple[Message, ...] = ()
    parser: str = ""
    renderer: str = ""
    requires: str = ""


NO_USE: Final = Use()


class ImportRequest(NamedTuple):
    """What the user asked for.

    Attributes:
        source: a directory or file, a repository on the Hub, or a stored model.
        recipe: what becomes of the tensors, or what to make a recipe of.
        variant: of the weights, such as `fp16`, or None.
        threads: that write blobs, if `max_memory`, in bytes, suffices for so many.
        rehash: believe nothing that the store noted earlier.
        strict: refuse a plan in which a tensor does not fit its rule.
        report: measure the quantized tensors, and store what was found.
        clobber: whether the name may stand for a model already.
        expected: the digest that the manifest has to get, or None.
        as_arrays: keep quantized weights as the arrays that they are stored as, as models of
            earlier versions have them.
        use: how the model is used, beside what its files say.
        draft: a directory of a model that guesses ahead for this one, or None.
        adapter: a directory of an adapter of this one, or None.
        unpack: take tensors out of files that would be kept whole if nothing were asked.
        imatrix: what tells how much columns count where scales are searched for: a file, or
            the digest of one in the store; None for the one that the recipe names, if any.
        scheduler: address of a Dask cluster whose workers make the blobs, or None.
        budget: a size within which types are chosen, where the recipe leaves them open.
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
    clobber: bool = True
    expected: Digest | None = None
    as_arrays: bool = False
    unpack: bool = False
    use: Use = NO_USE
    draft: Path | None = None
    adapter: Path | None = None
    imatrix: Path | Digest | None = None
    scheduler: str | None = None
    budget: Budget | None = None

    @property
    def takes_apart(self) -> bool:
        """Whether tensors are wanted, and not files that programs load as they are."""
        return self.unpack or self.recipe not in (PLAIN, QuantizeOptions())

    def check_manifest(self, manifest: Manifest) -> None:
        """Raise DiffersError where a manifest is not the one that was expected."""
        found = Digest.of(manifest.to_bytes()) if self.expected is not None else None
        if found is not None and self.expected is not None and found != self.expected:
            raise DiffersError(
                f"the manifest would be {found.short}, expected {self.expected.short}",
                code="E_SYNC_LOCKED",
            )

    def check_name(self, store: Store) -> None:
        """Raise UsageError where the name stands for a model and must not."""
        if not self.clobber:
            store.catalog.check_free(self.name)


def is_derived(request: ImportRequest) -> bool:
    """Return whether a model is made of a stored one by its layers alone."""
    return (
        isinstance(request.source, StoredModel)
        and not request.takes_apart
        and not (request.report or request.strict or request.variant)
        and request.draft is None
        and request.adapter is None
    )
