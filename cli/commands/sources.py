"""What a text on the command line names where a model is read: the store comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importer.sources.location import Source
    from store import Store


def source_to_read(text: str, store: Store) -> Source:
    """Return what is read: a stored name or ID wins, and a note says that a path has it, too.

    Raises:
        UsageError: the text can be no source, or is the ID of several models.
        NotFoundError: nothing like this exists, but it looks like a repository's name.
    """
    import os

    from cli.views.console import talk
    from importer.sources.location import StoredModel, parse_source
    from store.lookup import find_name
    from store.text import printable

    if not text.startswith((".", "/", "~", "hf:", "hf.co/")) and "://" not in text:
        model = find_name(store.catalog, text)
        if model is not None:
            if os.path.lexists(text):
                shown = printable(text)
                talk(f"note: `{shown}` is a model in the store and a path: took the model")
            return StoredModel(model)
    return parse_source(text)
