"""Each kind of tokenizer that GGUF files have, as Hugging Face's library has it.

Each function returns the text of tokenizer.json in pieces, or why there is none.
"""

from __future__ import annotations

import base64
import functools
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final

from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.token_roles import KEYS, enclosed, special_tokens, template_of
from importer.formats.gguf_names.tokenizer_document import document_of
from importer.formats.gguf_names.vocabulary import Kind, Vocabulary
from store.json import Json

_TABLE: Final = "pretokenizers.toml"
_SPACE: Final = "\u2581"
_BYTES: Final[dict[str, Json]] = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": False,
    "use_regex": False,
}
_UNBLANK: Final[dict[str, Json]] = {
    "type": "Replace",
    "pattern": {"String": " "},
    "content": _SPACE,
}
_BLANKS: Final[list[Json]] = [
    {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
_ADDS_START: Final = frozenset({"llama3", "tekken"})
"""Of words cut so, texts begin with a token unless the file says otherwise (llama.cpp)."""


def sentencepiece(facts: Facts, vocabulary: Vocabulary) -> Iterator[str] | str:
    """Return a BPE of SentencePiece, whose merges are those of Hugging Face's converter."""
    if len(vocabulary.scores) != len(vocabulary.tokens):
        return "the tokens have no scores"
    prefix = facts.values.get(f"{KEYS}add_space_prefix", True)
    normalizers: list[Json] = [{"type": "Prepend", "prepend": _SPACE}] if prefix else []
    strip: list[Json] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    decoders = [*_BLANKS, *strip] if prefix else _BLANKS
    unknown = special_tokens(facts, vocabulary).get("unk_token")
    head: dict[str, Json] = {
        "normalizer": {"type": "Sequence", "normalizers": [*normalizers, _UNBLANK]},
        "pre_tokenizer": None,
        "post_processor": template_of(facts, vocabulary, starts=True),
        "decoder": {"type": "Sequence", "decoders": decoders},
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "fuse_unk": True,
        "byte_fallback": vocabulary.has(Kind.BYTE),
        "ignore_merges": False,
    }
    return document_of(vocabulary, head, model, vocabulary.pairs_by_score())


def gemma(facts: Facts, vocabulary: Vocabulary) -> Iterator[str]:
    """Return a BPE of SentencePiece whose merges the file lists."""
    head: dict[str, Json] = {
        "normalizer": _UNBLANK,
        "pre_tokenizer": None,
        "post_processor": template_of(facts, vocabulary, starts=True),
        "decoder": {"type": "Sequence", "decoders": _BLANKS},
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": special_tokens(facts, vocabulary).get("unk_token"),
        "fuse_unk": True,
        "byte_fallback": vocabulary.has(Kind.BYTE),
        "ignore_merges": False,
    }
    return document_of(vocabulary, head, model, (_pair(merge) for merge in vocabulary.merges()))


def byte_level(facts: Facts, vocabulary: Vocabulary) -> Iterator[str] | str:
    """Return a BPE of bytes, as GPT-2 has it."""
    name = facts.values.get(f"{KEYS}pre")
    found = _pre_tokenizers().get(name) if isinstance(name, str) else None
    if found is None:
        if not name:
            return "nothing tells how it cuts text into words"
        return f"how its pre-tokenizer `{name}` cuts text is not known"
    kind, table = found
    cut: list[Json] = [
        {"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated", "invert": False}
        for one in table.get("patterns", ())
    ]
    if table.get("digits"):
        cut.append({"type": "Digits", "individual_digits": True})
    if table.get("is_falcon"):
        cut += _FALCON
    else:
        cut.append({**_BYTES, "use_regex": table.get("is_gpt2", False)})
    starts = template_of(facts, vocabulary, starts=kind in _ADDS_START)
    head: dict[str, Json] = {
        "normalizer": {"type": table["normalizer"]} if "normalizer" in table else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cut},
        "post_processor": starts or _BYTES,
        "decoder": {**_BYTES, "use_regex": True},
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": table.get("ignore_merges", False),
    }
    pairs = (_pair(merge) for merge in vocabulary.merges())
    return document_of(vocabulary, head, model, pairs)


_FALCON: Final[list[Json]] = [
    {"type": "Punctuation", "behavior": "Contiguous"},
    {**_BYTES, "use_regex": True},
    {"type": "Digits", "individual_digits": False},
    {
        "type": "Split",
        "pattern": {"Regex": "[0-9][0-9][0-9]"},
        "behavior": "Isolated",
        "invert": False,
    },
]


def _pair(merge: str) -> tuple[str, str]:
    # A token may begin with a blank where bytes are not spelled as letters.
    left, _, right = merge[1:].partition(" ")
    return merge[:1] + left, right


def word_piece(facts: Facts, vocabulary: Vocabulary) -> Iterator[str]:
    """Return BERT's; GGUF marks tokens that begin a word, Hugging Face those that do not."""
    lower = not any(
        any("A" <= letter <= "Z" for letter in token)
        for number, token in enumerate(vocabulary.tokens)
        if vocabulary.kind(number) == Kind.NORMAL and not token.startswith(("[", f"{_SPACE}["))
    )
    roles = special_tokens(facts, vocabulary)
    unknown = roles.get("unk_token", "[UNK]")
    head = {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": lower,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": enclosed(vocabulary, roles.get("cls_token"), roles.get("sep_token")),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }
    model = {
        "type": "WordPiece",
        "unk_token": unknown,
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    words = tuple(
        _word(token, vocabulary.kind(number)) for number, token in enumerate(vocabulary.tokens)
    )
    return document_of(vocabulary, head, model, None, words)


def _word(token: str, kind: int) -> str:
    if kind == Kind.CONTROL:
        return token
    return token[1:] if token.startswith(_SPACE) else f"##{token}"


def unigram(facts: Facts, vocabulary: Vocabulary) -> Iterator[str] | str:
    """Return a Unigram of SentencePiece."""
    if len(vocabulary.scores) != len(vocabulary.tokens):
        return "the tokens have no scores"
    normalizers: list[Json] = []
    if vocabulary.charsmap:
        text = base64.b64encode(vocabulary.charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": text})
    if facts.values.get(f"{KEYS}remove_extra_whitespaces", True):
        normalizers.append({"type": "Strip", "strip_left": False, "strip_right": True})
        blanks: Json = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": _SPACE}
        normalizers.append(blanks)
    metaspace: dict[str, Json] = {
        "type": "Metaspace",
        "replacement": _SPACE,
        "prepend_scheme": "always",
        "split": True,
    }
    unknown = facts.values.get(f"{KEYS}unknown_token_id")
    head: dict[str, Json] = {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": metaspace,
        "post_processor": template_of(facts, vocabulary, starts=False),
        "decoder": metaspace,
    }
    model = {
        "type": "Unigram",
        "unk_id": unknown if isinstance(unknown, int) else None,
        "byte_fallback": vocabulary.has(Kind.BYTE),
    }
    return document_of(vocabulary, head, model, None)


@functools.cache
def _pre_tokenizers() -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return {name: (kind, table) for kind, table in tables.items() for name in table["names"]}
