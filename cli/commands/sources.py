"""What a text on the command line names where a model is read: the store comes first."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli.commands.modelfile import Given
    from importer.sources.location import Source, StoredModel
    from store import Store

_NEVER_NAMES: Final = ("./", "../", "/", "~", "hf:")


def find_model(store: Store, text: str) -> StoredModel | None:
    """Return the stored model that a name, an ID or `NAME@ID` means, or None for another text.

    Raises:
        UsageError: several models have such an ID.
        NotFoundError: nothing of such an ID is in the history of the name.
    """
    from cli.commands.former import AT, find_former
    from importer.sources.location import StoredModel
    from store.lookup import digits_of, find_name

    if AT in text:
        if digits_of(text.partition(AT)[2]) is None:
            return None
        former = find_former(store, text)
        return StoredModel(former.name, former)
    name = find_name(store.catalog, text)
    return None if name is None else StoredModel(name)


@contextlib.contextmanager
def looked_up(store: Store, text: str = "") -> Iterator[None]:
    """Have the hint for a model that a store lacks list what this store has.

    Args:
        text: that names the model, and may be a path instead.
    """
    from cli.commands.former import made_of
    from cli.commands.options import store_option
    from store.errors import NotFoundError

    try:
        yield
    except NotFoundError as error:
        if error.code == "E_NOT_FOUND" and error.hint is None:
            lists = f"`ingot list{store_option(store)}` shows what there is"
            error.hint = (made_of(text) if text else None) or lists
        raise


def get_model(store: Store, text: str) -> StoredModel:
    """Return the stored model that a name, an ID or `NAME@ID` means.

    Raises:
        UsageError: the text is none of them, or means several models.
        NotFoundError: there is no such model.
    """
    from cli.commands.former import AT, find_former
    from importer.sources.location import StoredModel
    from store.lookup import get_name

    if AT in text:
        former = find_former(store, text)
        return StoredModel(former.name, former)
    with looked_up(store, text):
        return StoredModel(get_name(store.catalog, text))


def get_models(store: Store, texts: list[str]) -> list[StoredModel]:
    """Return the stored models that names, IDs, `NAME@ID` and globs mean, each once.

    Raises:
        UsageError: a text is none of them, or an ID of several models.
        NotFoundError: there is no such model.
    """
    from importer.sources.location import StoredModel
    from store.lookup import is_glob, names_like

    found: dict[StoredModel, None] = {}
    for text in texts:
        if is_glob(text):
            with looked_up(store):
                found |= dict.fromkeys(map(StoredModel, names_like(store.catalog, text)))
        else:
            found[get_model(store, text)] = None
    return list(found)


def source_to_read(text: str, store: Store) -> Source:
    """Return what is read: a stored model wins, and a note says that a path has its name, too.

    Raises:
        UsageError: the text can be no source, or is the ID of several models.
        NotFoundError: nothing like this exists, but it looks like the name of a repository,
            or nearly like that of a model.
    """
    import os

    from cli.views.console import talk
    from importer.sources.location import check_not_misspelled, parse_source
    from store.text import printable

    if not text.startswith((".", "/", "~", "hf:", "hf.co/")) and "://" not in text:
        is_path = os.path.lexists(text)
        model = None if is_path and "@" in text else find_model(store, text)
        if model is not None:
            if is_path:
                shown = printable(text)
                talk(f"note: `{shown}` is a model in the store and a path: took the model")
            return model
    found = parse_source(text)
    check_not_misspelled(found, text, store.catalog)
    return found


def spelled_out(source: Source) -> str:
    """Return how a source is named where a path must not look like the name of a model."""
    import os

    text = str(source)
    is_bare = isinstance(source, Path) and not text.startswith((os.sep, os.curdir, "~"))
    return f"{os.curdir}{os.sep}{text}" if is_bare else text


def source_to_import(
    source: str | None, given: Given | None, store: Store, *, is_found: bool
) -> Source:
    """Return what is imported: a path wins; notes say what a user may not have meant.

    Args:
        source: as it was typed, or None for what the Modelfile says, or the current directory.
        given: the Modelfile, if there is one.
        store: that a text may name a model of.
        is_found: whether nobody named the Modelfile.

    Raises:
        UsageError: the text can be no source, or is the ID of several models.
        NotFoundError: nothing like this exists, but it looks like the name of a repository,
            or nearly like that of a model.
    """
    import os
    from functools import partial

    from cli.views.console import talk
    from importer.sources.location import check_not_misspelled, parse_source
    from store.text import printable

    stored = partial(find_model, store)
    if given is not None and source is None:
        if is_found:
            base = given.content.base
            text = f": FROM {printable(base.text)}" if base is not None else ""
            talk(f"no SOURCE is named: doing what `{given.name}` says{text}")
        return given.source(stored, store.catalog)
    if source is None:
        talk(f"no SOURCE is named: reading the current directory, `{printable(os.getcwd())}`")
        source = "."
    found = parse_source(source, stored)
    if isinstance(found, Path) and _is_stored(source, stored):
        shown = printable(source)
        talk(f"note: `{shown}` is a path and a model in the store: took the path")
    check_not_misspelled(found, source, store.catalog)
    return found


def _is_stored(source: str, stored: Callable[[str], StoredModel | None]) -> bool:
    """Return whether what is spelled as a name is the name of a model, too."""
    from store.errors import IngotError

    try:
        return not source.startswith(_NEVER_NAMES) and stored(source) is not None
    except IngotError:  # an ID of several models
        return False
