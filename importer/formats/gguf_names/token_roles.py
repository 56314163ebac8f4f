"""Tokens that have a role: that begin and end texts, that stand for what is unknown."""

from __future__ import annotations

from typing import Final

from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.vocabulary import Vocabulary
from store.json import Json

KEYS: Final = "tokenizer.ggml."
"""What the names of facts about the tokenizer begin with."""
_SPECIAL: Final = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",  # as GGUF spells it
    "pad_token": "padding_token_id",
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}


def special_tokens(facts: Facts, vocabulary: Vocabulary) -> dict[str, Json]:
    """Return the tokens that have a role, by Hugging Face's name of it."""
    found: dict[str, Json] = {}
    for role, key in _SPECIAL.items():
        number = facts.values.get(KEYS + key)
        if isinstance(number, int) and 0 <= number < len(vocabulary.tokens):
            found[role] = vocabulary.tokens[number]
    if facts.values.get(f"{KEYS}model") == "bert":
        for role, usual in (("cls_token", "[CLS]"), ("sep_token", "[SEP]")):
            if role not in found and usual in vocabulary.tokens:
                found[role] = usual
    return found


def template_of(
    facts: Facts, vocabulary: Vocabulary, *, starts: bool
) -> dict[str, Json] | None:
    """Return what puts tokens at the ends of a text, if it does."""
    roles = special_tokens(facts, vocabulary)
    first = roles.get("bos_token") if facts.values.get(f"{KEYS}add_bos_token", starts) else None
    is_t5 = facts.values.get(f"{KEYS}model") == "t5"
    last = roles.get("eos_token") if facts.values.get(f"{KEYS}add_eos_token", is_t5) else None
    return enclosed(vocabulary, first, last)


def enclosed(vocabulary: Vocabulary, first: Json, last: Json) -> dict[str, Json] | None:
    """Return what puts a token before and one after a text, those that are not None."""
    ends = [end for end in (first, last) if isinstance(end, str)]
    if not ends:
        return None

    def put(text: str, number: int) -> list[Json]:
        parts: list[Json] = [{"Sequence": {"id": text, "type_id": number}}]
        if isinstance(first, str) and (text == "A" or last is None):
            parts.insert(0, {"SpecialToken": {"id": first, "type_id": number}})
        if isinstance(last, str):
            parts.append({"SpecialToken": {"id": last, "type_id": number}})
        return parts

    tokens: dict[str, Json] = {
        end: {"id": end, "ids": [vocabulary.tokens.index(end)], "tokens": [end]} for end in ends
    }
    return {
        "type": "TemplateProcessing",
        "single": put("A", 0),
        "pair": [*put("A", 0), *put("B", 1)],
        "special_tokens": tokens,
    }
