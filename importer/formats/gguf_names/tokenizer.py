"""Write tokenizer.json and tokenizer_config.json of a GGUF file's vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.token_roles import KEYS, special_tokens
from importer.formats.gguf_names.tokenizer_kinds import (
    byte_level,
    gemma,
    sentencepiece,
    unigram,
    word_piece,
)
from importer.formats.gguf_names.vocabulary import Vocabulary
from store.json import Json

Text = Iterator[str] | str
"""The text of a file in pieces, or why there is none."""
_KINDS: Final[Mapping[object, Callable[[Facts, Vocabulary], Text]]] = MappingProxyType(
    {
        "bert": word_piece,
        "gemma4": gemma,
        "gpt2": byte_level,
        "llama": sentencepiece,
        "t5": unigram,
    }
)
"""By `tokenizer.ggml.model`."""


def tokenizer_json(facts: Facts, vocabulary: Vocabulary) -> Text:
    """Return the text of tokenizer.json in pieces, or why there is none."""
    model = facts.values.get(f"{KEYS}model")
    if not vocabulary.tokens:
        return "the file has no vocabulary"
    kind = _KINDS.get(model)
    if kind is None:
        return f"a tokenizer of the kind `{model}` has no such form here"
    return kind(facts, vocabulary)


def tokenizer_config(facts: Facts, vocabulary: Vocabulary) -> dict[str, Json]:
    """Return the content of tokenizer_config.json."""
    config: dict[str, Json] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    config |= special_tokens(facts, vocabulary)
    for key in ("add_bos_token", "add_eos_token"):
        told = facts.values.get(KEYS + key)
        if isinstance(told, bool):
            config[key] = told
    context = facts.integer("context_length")
    if context is not None:
        config["model_max_length"] = context
    config["clean_up_tokenization_spaces"] = False
    template = facts.values.get("tokenizer.chat_template")
    others = facts.values.get("tokenizer.chat_templates")
    if isinstance(others, (list, tuple)):
        named: list[Json] = (
            [{"name": "default", "template": template}] if isinstance(template, str) else []
        )
        for name in others:
            text = facts.values.get(f"tokenizer.chat_template.{name}")
            if isinstance(name, str) and isinstance(text, str):
                named.append({"name": name, "template": text})
        config["chat_template"] = named
    elif isinstance(template, str):
        config["chat_template"] = template
    return config
