"""Which of llama.cpp's ways to cut text into words a tokenizer.json has.

llama.cpp's converter knows a tokenizer by what it makes of one text; pre_tokenizers.toml has
that text and the names. One that is not among them is known by its expressions.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple

from importer.exports.gguf.documents import as_object
from importer.exports.gguf.encoding import Encoding
from importer.exports.gguf.expressions import NotEncodedError
from importer.formats import gguf_names
from store.errors import UnsupportedError
from store.json import Json

_TABLE: Final = "pre_tokenizers.toml"
_STRUCTURES: Final = "pretokenizers.toml"
_WORD_PIECE: Final = "WordPiece"
_USUAL: Final = "default"


class _Structure(NamedTuple):
    """How text is cut into words.

    Attributes:
        patterns: expressions, one after the other.
        digits: whether each digit is a word.
        is_gpt2: whether words are GPT-2's, of what the others leave.
    """

    patterns: tuple[str, ...]
    digits: bool
    is_gpt2: bool


def pre_tokenizer_of(
    tokenizer: Mapping[str, Json], model: Mapping[str, Json], merges: Sequence[str]
) -> str:
    """Return llama.cpp's name.

    Args:
        tokenizer: a tokenizer.json.
        model: of it.
        merges: pairs, `a b`, in their order.

    Raises:
        UnsupportedError: llama.cpp knows none like it.
    """
    table = _table(__package__, _TABLE)
    try:
        numbers = Encoding(tokenizer, model, merges).encode(table["text"])
    except NotEncodedError:
        pass
    else:
        digest = hashlib.sha256(str(numbers).encode()).hexdigest()
        if digest in table["names"]:
            name: str = table["names"][digest]
            return name
    if model.get("type") == _WORD_PIECE:
        return _USUAL  # llama.cpp cuts the text of all of them alike, and does not ask
    return _by_structure(tokenizer, model)


def _by_structure(tokenizer: Mapping[str, Json], model: Mapping[str, Json]) -> str:
    structure = _structure_of(tokenizer.get("pre_tokenizer"))
    ignores = bool(model.get("ignore_merges"))
    found = [
        table
        for table in _table(gguf_names.__name__, _STRUCTURES).values()
        if structure == _structure_in(table)
    ]
    alike = [table for table in found if table.get("ignore_merges", False) == ignores]
    if structure is None or not found:
        raise UnsupportedError(
            "the pre-tokenizer of `tokenizer.json`, which cuts text into words, is not one of "
            "those that llama.cpp has a name for",
            code="E_EXPORT_FORMAT",
            hint="llama.cpp has to learn it first; other formats keep the tokenizer as it is",
        )
    name: str = (alike or found)[0]["names"][0]
    return name


def _structure_in(table: Mapping[str, Any]) -> _Structure | None:
    if table.get("is_falcon"):
        return None
    patterns = tuple(table.get("patterns", ()))
    return _Structure(patterns, table.get("digits", False), table.get("is_gpt2", False))


def _structure_of(found: Json) -> _Structure | None:
    """Return the structure of a pre-tokenizer; None where it has other parts."""
    if not isinstance(found, dict):
        return None
    inner = found.get("pretokenizers")
    steps = inner if found.get("type") == "Sequence" and isinstance(inner, list) else [found]
    patterns: list[str] = []
    digits = is_gpt2 = False
    for step in steps:
        told = as_object(step)
        kind = told.get("type")
        if kind == "Split":
            patterns.append(str(as_object(told.get("pattern")).get("Regex")))
        elif kind == "Digits" and told.get("individual_digits"):
            digits = True
        elif kind == "ByteLevel":
            is_gpt2 = bool(told.get("use_regex", True))
        else:
            return None
    return _Structure(tuple(patterns), digits, is_gpt2)


@functools.cache
def _table(package: str, name: str) -> Mapping[str, Any]:
    return tomllib.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))
