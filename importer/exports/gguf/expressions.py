"""Regular expressions with properties of Unicode, of which Python's `re` knows none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

_PROPERTY: Final = re.compile(r"\\([pP])\{(\^?)([A-Za-z_]+)\}")
_NOTHING: Final = "\ufdd0"
"""A character that no text has."""


class NotEncodedError(Exception):
    """The tokenizer has a part that is not understood here."""


def cut(regex: str, word: str) -> Iterator[str]:
    """Yield what an expression matches, and what is between.

    Raises:
        NotEncodedError: it is not understood.
    """
    for found, _ in matches(regex, word):
        yield found


def matches(regex: str, word: str) -> Iterator[tuple[str, bool]]:
    """Yield what an expression matches and what is between, and whether it matches.

    Raises:
        NotEncodedError: it is not understood.
    """
    try:
        compiled = re.compile(_expanded(regex, frozenset(word)))
    except re.error as error:
        raise NotEncodedError from error
    end = 0
    for found in compiled.finditer(word):
        if found.start() > end:
            yield word[end : found.start()], False
        if found.group():
            yield found.group(), True
        end = found.end()
    if end < len(word):
        yield word[end:], False


def _expanded(regex: str, characters: frozenset[str]) -> str:
    """Return an expression without properties of Unicode: those of `characters` in their place.

    Python's `re` knows none, and of one text each property has few characters.
    """
    made: list[str] = []
    at, is_in_class = 0, False
    while at < len(regex):
        found = _PROPERTY.match(regex, at)
        if found is not None:
            is_negative = (found[1] == "P") is not bool(found[2])
            is_of = _property(found[3])
            inside = sorted(one for one in characters if is_of(one) is not is_negative)
            escaped = "".join(map(re.escape, inside)) or _NOTHING
            made.append(escaped if is_in_class else f"[{escaped}]")
            at = found.end()
            continue
        if regex[at] == "\\":
            made.append(regex[at : at + 2])
            at += 2
            continue
        if regex[at] == "[":
            made.append("\\[" if is_in_class else "[")
            is_in_class = True
        else:
            is_in_class = is_in_class and regex[at] != "]"
            made.append(regex[at])
        at += 1
    return "".join(made)


def _property(name: str) -> Callable[[str], bool]:
    if name == "Han":
        return lambda one: unicodedata.name(one, "").startswith("CJK UNIFIED")
    if len(name) > 2 or name[0] not in "LMNPSZC":  # noqa: PLR2004 - as in `Lu`
        raise NotEncodedError
    return lambda one: unicodedata.category(one).startswith(name)
