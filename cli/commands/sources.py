"""What a text on the command line names where a model is read: the store comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importer.sources.location import Source, StoredModel
    from store import Store


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
            found |= dict.fromkeys(map(StoredModel, names_like(store.catalog, text)))
        else:
            found[get_model(store, text)] = None
    return list(found)


def source_to_read(text: str, store: Store) -> Source:
    """Return what is read: a stored model wins, and a note says that a path has its name, too.

    Raises:
        UsageError: the text can be no source, or is the ID of several models.
        NotFoundError: nothing like this exists, but it looks like a repository's name.
    """
    import os

    from cli.views.console import talk
    from importer.sources.location import parse_source
    from store.text import printable

    if not text.startswith((".", "/", "~", "hf:", "hf.co/")) and "://" not in text:
        is_path = os.path.lexists(text)
        model = None if is_path and "@" in text else find_model(store, text)
        if model is not None:
            if is_path:
                shown = printable(text)
                talk(f"note: `{shown}` is a model in the store and a path: took the model")
            return model
    return parse_source(text)
