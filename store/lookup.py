"""Which model a text means: an exact name, or else the beginning of a digest."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from store.catalog import Catalog, StoredManifest
from store.errors import IngotError, NotFoundError, UsageError
from store.names import ModelName
from store.text import meant, printable

_ID: Final = r"(?:sha256[:-])?([0-9a-f]{4,64})"
_GLOB: Final = r"[*?]|\[[^\]]+\]"
_SHOWN: Final = 8
_ALIKE: Final = 0.5
"""Of tags, which are short: half of `q5` is that of `q4`."""


def find_name(catalog: Catalog, text: str) -> ModelName | None:
    """Return the name of the model that a text means, or None where there is none.

    An exact name wins. Else an ID, which is at least 4 digits of the digest of a manifest, with
    or without `sha256:`, means the first of the names that this manifest has.

    Raises:
        UsageError: several models have such an ID.
    """
    name = _parsed(text)
    if name is not None:
        if catalog.fs.status(catalog.path(name)) is not None:
            return name
        # Other programs write the default host and namespace as they were typed.
        for other in _names(catalog):
            if str(other) == str(name):
                return other
    return _by_id(catalog, text)


def get_name(catalog: Catalog, text: str) -> ModelName:
    """Return the name of the model that a text means.

    Raises:
        NotFoundError: there is none; the hint has a name that may have been meant.
        UsageError: the text is neither a name nor an ID, or several models have such an ID.
    """
    found = find_name(catalog, text)
    if found is not None:
        return found
    check_text(text)
    raise not_found(catalog, [text])


def check_text(text: str) -> None:
    """Make sure that a text may be a name or an ID, each of which could be a name.

    Raises:
        UsageError: it is neither.
    """
    ModelName.parse(text)


def digits_of(text: str) -> str | None:
    """Return the digits of an ID, with or without `sha256:`; None where a text is not one."""
    match = re.fullmatch(_ID, text)
    return match[1] if match else None


def names_to_remove(catalog: Catalog, texts: Iterable[str]) -> list[ModelName]:
    """Return the models that have some names, or match globs such as `llama*`.

    Here an ID means nothing: it is not a name that could be removed.

    Raises:
        NotFoundError: some are not there; all of them are named.
        UsageError: a text is neither a name nor a glob.
    """
    found: dict[ModelName, None] = {}
    unknown = []
    for text in texts:
        if is_glob(text):
            names = _like(catalog, text)
        else:
            names = [ModelName.parse(text)]
            try:
                catalog.check_removable(names[0])
            except NotFoundError:
                names = []
        if not names:
            unknown.append(text)
        found |= dict.fromkeys(names)
    if unknown:
        raise not_found(catalog, unknown)
    return list(found)


def names_like(catalog: Catalog, glob: str) -> list[ModelName]:
    """Return the names that a glob matches.

    Raises:
        NotFoundError: it matches none.
    """
    found = _like(catalog, glob)
    if not found:
        raise not_found(catalog, [glob])
    return found


def _like(catalog: Catalog, glob: str) -> list[ModelName]:
    return [name for name in _names(catalog) if matches(name, glob)]


def is_chosen(name: ModelName, text: str) -> bool:
    """Return whether a glob matches a name, or a name begins with a text."""
    if str(name).lower().startswith(text.lower()):
        return True
    return is_glob(text) and matches(name, text)


def is_glob(text: str) -> bool:
    """Return whether a text has what no name has: `*`, `?` or a set in brackets."""
    return re.search(_GLOB, text) is not None


def matches(name: ModelName, glob: str) -> bool:
    """Return whether a glob matches a name, with its tag or, where that is usual, without.

    Case does not count, as in names.
    """
    full = str(name).lower()
    texts = {full, full.removesuffix(":latest")}
    return any(fnmatchcase(text, glob.lower()) for text in texts)


def not_found(catalog: Catalog, texts: list[str]) -> NotFoundError:
    """Return the error that says which models are not there, and what may have been meant."""
    shown = ", ".join(f"`{_shown(text)}`" for text in texts)
    is_pattern = len(texts) == 1 and is_glob(texts[0])
    return NotFoundError(
        f"no model matches {shown}"
        if is_pattern
        else f"model{'s' if len(texts) > 1 else ''} {shown} not found",
        code="E_NOT_FOUND",
        hint=nearest(catalog, texts[0]) if len(texts) == 1 else None,
    )


def _shown(text: str) -> str:
    name = None if is_glob(text) else _parsed(text)
    return str(name) if name is not None and not text.startswith("sha256") else printable(text)


def _parsed(text: str) -> ModelName | None:
    try:
        return ModelName.parse(text)
    except UsageError:
        return None


def _by_id(catalog: Catalog, text: str) -> ModelName | None:
    digits = digits_of(text)
    if digits is None:
        return None
    found: dict[str, ModelName] = {}
    for stored in _manifests(catalog):
        if (digest := stored.digest.hex).startswith(digits):
            found.setdefault(digest, stored.name)
    if len(found) > 1:
        candidates = [f"`{name}` ({digest[:12]})" for digest, name in found.items()]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(
            f"`{text}` is the ID of {len(found)} models: "
            f"{', '.join(candidates[:_SHOWN])}{more}",
            code="E_ID_AMBIGUOUS",
            hint="Give more digits, or the name",
        )
    return next(iter(found.values()), None)


def nearest(catalog: Catalog, text: str) -> str | None:
    """Return the hint that has a name which may have been meant, or several tags of it."""
    with contextlib.suppress(UsageError):  # of several models
        if (found := _by_id(catalog, text)) is not None:
            return f"Did you mean `{found}`?"
    names = list(_names(catalog))
    wanted = None if is_glob(text) else _parsed(text)
    tags = {
        name.tag: str(name)
        for name in names
        if wanted is not None and name.parts[:-1] == wanted.parts[:-1]
    }
    if wanted is not None and tags:  # the tag was forgotten, or is another one
        near = next(iter(tags)) if len(tags) == 1 else meant(wanted.tag, tags, _ALIKE)
        if near is not None:
            return f"Did you mean `{tags[near]}`?"
        shown = ", ".join(f"`{name}`" for name in list(tags.values())[:_SHOWN])
        return f"There are {shown}" + (" and others" if len(tags) > _SHOWN else "")
    usual = ":latest"  # which makes all names alike
    short = {str(name).removesuffix(usual): name for name in names}
    closest = meant(text.removesuffix(usual), short)
    return None if closest is None else f"Did you mean `{short[closest]}`?"


def _names(catalog: Catalog) -> Iterator[ModelName]:
    return (entry.name for entry in catalog.entries() if entry.name is not None)


def _manifests(catalog: Catalog) -> Iterator[StoredManifest]:
    """Yield the manifests that can be read; what is wrong with others is verify's to tell."""
    for name in _names(catalog):
        with contextlib.suppress(IngotError, OSError):
            if (stored := catalog.find(name)) is not None:
                yield stored
