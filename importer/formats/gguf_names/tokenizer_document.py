"""The text of a tokenizer.json, in pieces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from importer.formats.gguf_names.vocabulary import Vocabulary

_AT_ONCE: Final = 4096


def document_of(
    vocabulary: Vocabulary,
    head: Mapping[str, Any],
    model: Mapping[str, Any],
    pairs: Iterable[tuple[str, str]] | None,
    words: tuple[str, ...] | None = None,
) -> Iterator[str]:
    """Yield the whole document, in pieces: a vocabulary has hundreds of thousands of words."""
    start = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(vocabulary.added()),
        **head,
    }
    yield _text(start)[:-1] + ',"model":' + _text(model)[:-1] + ',"vocab":'
    tokens = vocabulary.tokens if words is None else words
    if model["type"] == "Unigram":
        yield from _joined("[", map(list, zip(tokens, vocabulary.scores, strict=True)), "]")
    else:
        first: dict[str, int] = {}
        for number, token in enumerate(tokens):
            first.setdefault(token, number)
        yield from _joined("{", first.items(), "}")
    if pairs is not None:
        yield ',"merges":'
        yield from _joined("[", pairs, "]")
    yield "}}\n"


def _joined(opening: str, parts: Iterable[Any], closing: str) -> Iterator[str]:
    """Yield an array, or an object of pairs; a call for each part would take twice as long."""
    yield opening
    parts, separator = iter(parts), ""
    while some := list(itertools.islice(parts, _AT_ONCE)):
        yield separator + _text(dict(some) if opening == "{" else some)[1:-1]
        separator = ","
    yield closing


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
