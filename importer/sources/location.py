"""What the name of a source means: a path, a model of the store, or one on the Hub."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from store import ModelName
from store.catalog import Catalog, StoredManifest
from store.errors import NotFoundError, UsageError
from store.paths import why_unsafe
from store.text import printable

_SHORT: Final = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_NEVER_STORED: Final = ("hf:", "hf.co/", "huggingface.co/", "./", "../", "/", "~")
_HINT: Final = "A model on the Hub is named `hf:org/repo` or `hf:org/repo@revision`"


class HubRepository(NamedTuple):
    """A model repository on the Hub.

    Attributes:
        repository: as `org/name`.
        revision: a branch, a tag or a commit.
        variant: of the weights, as in `hf.co/org/name:Q4_K_M`, or None.
    """

    repository: str
    revision: str = "main"
    variant: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repository}@{self.revision}"

    @classmethod
    def checked(cls, repository: str, revision: str = "main") -> HubRepository:
        """Return a repository by names that come from elsewhere.

        Raises:
            UsageError: nothing on the Hub can have such a name.
        """
        return _checked(cls(repository, revision))


class StoredModel(NamedTuple):
    """A model in the store that is imported into.

    Attributes:
        former: what the name stood for before, if that is meant.
    """

    name: ModelName
    former: StoredManifest | None = None

    @property
    def manifest(self) -> ModelName | StoredManifest:
        """What is read: what the name stands for, or the manifest that is meant."""
        return self.former or self.name

    def __str__(self) -> str:
        at = "" if self.former is None else f"@{self.former.digest.short}"
        return f"{self.name}{at}"


Source = Path | HubRepository | StoredModel
"""A directory or file, a repository on the Hub, or a model of the store."""


def parse_source(
    text: str,
    stored: Callable[[str], StoredModel | None] = lambda _: None,
    directory: Path = Path(),
) -> Source:
    """Parse the name of a source: `hf:org/repo[@revision]`, `hf.co/org/repo`, a URL, a path.

    Whatever exists as a path is one; then the name of a stored model is that model.

    Args:
        text: as it was typed.
        stored: returns the stored model that a text means, or None.
        directory: that relative paths are from.

    Raises:
        UsageError: an address that is not that of a model repository, or several stored models
            have such an ID.
        NotFoundError: nothing like this exists, but it looks like a repository's name.
    """
    if not text:  # as of `"$UNSET"`: not the current directory
        raise UsageError("the source is empty, expected a directory", code="E_USAGE")
    path = directory / text
    if os.path.lexists(path):
        return path
    if not text.startswith(_NEVER_STORED):
        model = stored(text)
        if model is not None:
            return model
    address, variant = _split_variant(text)
    if text.startswith("hf:"):
        repository, at, revision = address[3:].removeprefix("//").partition("@")
        named = HubRepository(repository, revision) if at else HubRepository(repository)
        return _checked(named._replace(variant=variant))
    if text.startswith(("hf.co/", "huggingface.co/")) or "://" in text:
        return _parse_address(address)._replace(variant=variant)
    if re.fullmatch(_SHORT, text):
        raise NotFoundError(
            f"source `{printable(text)}` does not exist",
            code="E_SRC_MISSING",
            hint=f"Did you mean `hf:{printable(text)}`, on the Hub?",
        )
    return path


def missing(source: Path) -> NotFoundError:
    """Return the error for a source that does not exist."""
    return NotFoundError(
        f"source `{printable(str(source))}` does not exist",
        code="E_SRC_MISSING",
        hint="A source is a directory with a checkpoint, a file of weights (safetensors, "
        "GGUF, PyTorch, ONNX, UQFF), the name of a model in the store, or `hf:org/repo`",
    )


def check_not_misspelled(found: Source, text: str, catalog: Catalog) -> None:
    """Raise NotFoundError for a path that does not exist, but is nearly the name of a model.

    Args:
        found: what the text means.
        text: as it was typed.
        catalog: of the models that may have been meant.
    """
    is_there = not isinstance(found, Path) or os.path.lexists(found)
    if is_there or text.startswith(_NEVER_STORED):
        return
    from store.lookup import nearest  # noqa: PLC0415 - for a mistake

    if (hint := nearest(catalog, text)) is not None:
        raise NotFoundError(
            f"source `{printable(text)}` does not exist", code="E_SRC_MISSING", hint=hint
        )


def check_no_variant(model: StoredModel, variant: str | None) -> None:
    """Raise UsageError where a variant of a stored model is asked for, which has one alone."""
    if variant is not None:
        raise UsageError(
            f"`{model}` is a stored model, and has no variant `{printable(variant)}`",
            code="E_SRC_VARIANT",
        )


def _split_variant(text: str) -> tuple[str, str | None]:
    """Part `hf.co/org/name:Q4_K_M`, as Ollama spells a variant; no revision has a colon.

    A revision may be before it or behind it.
    """
    before, slash, last = text.rpartition("/")
    last, _, variant = last.partition(":")
    variant, at, revision = variant.partition("@")
    if not slash or not variant or "://" in text:
        return text, None
    return f"{before}/{last}{at}{revision}", variant


def _parse_address(text: str) -> HubRepository:
    from huggingface_hub import constants, parse_hf_uri  # noqa: PLC0415

    try:
        uri = parse_hf_uri(text, endpoint=constants.ENDPOINT)
    except ValueError as error:  # theirs is one, and so is urllib's
        raise UsageError(
            f"`{printable(text)}` is not the address of a model on the Hub",
            code="E_USAGE",
            hint=_HINT,
        ) from error
    if uri.type != "model":
        raise UsageError(f"`{printable(text)}` is a {uri.type}", code="E_USAGE", hint=_HINT)
    if uri.path_in_repo:
        raise UsageError(
            f"`{printable(text)}` names `{printable(uri.path_in_repo)}` in a repository",
            code="E_USAGE",
            hint=f"{_HINT}, also where the revision has a `/`",
        )
    return _checked(
        HubRepository(uri.id, uri.revision) if uri.revision else HubRepository(uri.id)
    )


def _checked(source: HubRepository) -> HubRepository:
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415
    from huggingface_hub.utils import validate_repo_id  # noqa: PLC0415

    name = printable(source.repository)
    try:
        validate_repo_id(source.repository)
    except HFValidationError as error:
        message = f"`{name}` is not the name of a repository on the Hub"
        raise UsageError(message, code="E_USAGE", hint=_HINT) from error
    if source.repository.count("/") != 1:
        message = f"`{name}` is not a repository, only an organization or a user"
        raise UsageError(message, code="E_USAGE", hint=_HINT)
    # It becomes a path in the cache.
    if why := why_unsafe(source.revision):
        message = f"the revision `{printable(source.revision)}` {why}"
        raise UsageError(message, code="E_USAGE", hint=_HINT)
    return source
