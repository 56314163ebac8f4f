"""The vocabulary that a file gets: tokens, scores, kinds, merges, and special tokens.

Source: `TextModel` in llama.cpp's conversion/base.py. What that asks transformers for is in
tokenizer.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn

from importer.exports.gguf.documents import (
    SENTENCEPIECE,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Documents,
    as_list,
    as_object,
    bad,
    is_number,
    objects,
)
from importer.exports.gguf.hparams import Hparams
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.pre_tokenizers import pre_tokenizer_of
from importer.exports.gguf.sentencepiece import Token, read_pieces
from importer.exports.gguf.special_tokens import SpecialTokens
from importer.exports.gguf.wordpiece import tokenizer_of
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import Values
from importer.formats.gguf_names.vocabulary import LIMIT_TOKENS, Kind
from importer.sources.document import CONFIG, Document
from store.errors import UnsupportedError
from store.json import Json

_VOCABULARY: Final = "vocab.txt"
_WORDS: Final = "WordPiece"
_MODEL: Final = "tokenizer.ggml.model"
_SPACE: Final = "\u2581"
_SPECIAL: Final = re.compile(r"<\|.*\|>|<\uff5c.*\uff5c>|<unused.*>", re.DOTALL)
_ALSO_SPECIAL: Final = frozenset({"<pad>", "<mask>", "<2mass>", "[@BOS@]"})
ADDED_SCORE: Final = -1000.0
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Vocabulary:
    """The files of a model's tokenizer, and the configuration that counts its tokens."""

    def __init__(self, documents: Documents, config: Document, hparams: Hparams) -> None:
        """Take the files; nothing is read."""
        self.documents = documents
        self.config = config
        self.hparams = hparams

    @property
    def has_pieces(self) -> bool:
        """Whether SentencePiece's own file is there."""
        return SENTENCEPIECE in self.documents

    def special(self, size: int | None = None, further: Mapping[str, str] = _NONE) -> Metadata:
        """Return the keys of special tokens.

        Args:
            size: of the vocabulary, where numbers must be in it.
            further: added tokens by the type that they are where the files name none.
        """
        found = SpecialTokens(self.documents, self.config, size)
        if further:
            added = objects(self.documents.parse(TOKENIZER).get("added_tokens"))
            numbers = {one.get("content"): one.get("id") for one in added}
            for kind, text in further.items():
                found.set(kind, numbers.get(text))
        return found.keys()

    def sentencepiece(self) -> Metadata:
        """Return the keys of a tokenizer.model."""
        if not self.has_pieces:
            self.missing(SENTENCEPIECE)
        return self.listed(list(_padded(self.pieces(), self._size_of_pieces())))

    def bpe(self, further: Mapping[str, str] = _NONE) -> Metadata:
        """Return the keys of a tokenizer.json whose pairs of bytes merge.

        Args:
            further: as `special` has it.
        """
        tokenizer, model = self._of_type("BPE")
        tokens, kinds = self._tokens(tokenizer)
        merges = self._merges(model)
        made: Metadata = {
            _MODEL: Value("string", "gpt2"),
            "tokenizer.ggml.pre": Value("string", pre_tokenizer_of(tokenizer, model, merges)),
            "tokenizer.ggml.tokens": Values("string", tokens),
            "tokenizer.ggml.token_type": Values("i32", kinds),
        }
        if merges:
            made["tokenizer.ggml.merges"] = Values("string", merges)
        return made | self.special(further=further)

    def word_pieces(self) -> Metadata:
        """Return the keys of a tokenizer.json of BERT's: what begins a word is marked."""
        tokenizer, model = self._of_type(_WORDS)
        tokens, kinds = self._tokens(tokenizer)
        marked = [
            one if kind == Kind.CONTROL else one[2:] if one.startswith("##") else _SPACE + one
            for one, kind in zip(tokens, kinds, strict=True)
        ]
        types = self.hparams.optional("type_vocab_size")
        made: Metadata = {
            "tokenizer.ggml.token_type_count": Value("u32", 1 if types is None else types),
            _MODEL: Value("string", "bert"),
            "tokenizer.ggml.pre": Value("string", pre_tokenizer_of(tokenizer, model, ())),
            "tokenizer.ggml.tokens": Values("string", marked),
            "tokenizer.ggml.token_type": Values("i32", kinds),
        }
        return made | self.special(len(tokens))

    def _of_type(self, kind: str) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
        """Return a tokenizer.json and its model, which must be of a type."""
        if TOKENIZER in self.documents:
            tokenizer = self.documents.parse(TOKENIZER)
        elif kind == _WORDS and _VOCABULARY in self.documents:
            lines = self.documents.text(_VOCABULARY).split("\n")
            lines = lines if lines[-1] else lines[:-1]
            told = self.documents.parse(TOKENIZER_CONFIG)
            tokenizer = tokenizer_of([line.rstrip("\r") for line in lines], told)
        else:
            self.missing(TOKENIZER)
        model = as_object(tokenizer.get("model"))
        if (found := model.get("type", "BPE")) != kind:
            raise UnsupportedError(
                f"`{TOKENIZER}` has a vocabulary of the type {found}, expected {kind}",
                code="E_EXPORT_FORMAT",
            )
        return tokenizer, model

    def missing(self, path: str) -> NoReturn:
        """Raise UnsupportedError for a file without which there is no vocabulary."""
        raise UnsupportedError(
            f"the model has no `{path}`, and a GGUF file holds the vocabulary",
            code="E_EXPORT_FORMAT",
        )

    def _size_of_pieces(self) -> int | None:
        return self.hparams.optional("vocab_size_per_layer_input", "vocab_size")

    def pieces(self) -> list[Token]:
        """Return SentencePiece's tokens, and those that other files add or change."""
        found = read_pieces(self.documents.read(SENTENCEPIECE))
        size = self._size_of_pieces() or len(found)
        _check_count(size)
        tokens = list(_padded(found, size))
        added = self.documents.parse("added_tokens.json")
        for text, number in added.items():
            if is_number(number, size):
                tokens[number] = Token(text, ADDED_SCORE, Kind.USER_DEFINED)
        told = as_object(self.documents.parse(TOKENIZER_CONFIG).get("added_tokens_decoder"))
        for key, one in told.items():
            content = as_object(one).get("content")
            if not key.isdecimal() or not isinstance(content, str):
                bad(TOKENIZER_CONFIG, f"has an added token `{key}` that is not understood")
            if int(key) >= size:
                continue
            if as_object(one).get("special") or looks_special(content):
                tokens[int(key)] = Token(content, ADDED_SCORE, Kind.CONTROL)
            else:
                spaced = content.replace(_SPACE, " ")
                tokens[int(key)] = Token(spaced, ADDED_SCORE, Kind.USER_DEFINED)
        return tokens

    def likely_pieces(self, found: Sequence[Token], further: Metadata) -> Metadata:
        """Return the keys of a model of SentencePiece that cuts text by likelihood.

        Args:
            found: its pieces.
            further: keys that go before those of special tokens.
        """
        size = self.hparams.optional("vocab_size") or len(found)
        _check_count(size)
        tokens = list(_padded(found, size))
        for text, number in self.documents.parse("added_tokens.json").items():
            if is_number(number, size):
                tokens[number] = Token(text, ADDED_SCORE, Kind.USER_DEFINED)
        return self.listed(tokens, "t5", further)

    def filled(self, found: Sequence[Token]) -> list[Token]:
        """Return pieces, and unused ones up to the number that the configuration counts."""
        size = max(self.hparams.optional("vocab_size") or 0, len(found))
        _check_count(size)
        return list(_padded(found, size))

    def listed(
        self, tokens: Sequence[Token], model: str = "llama", further: Metadata | None = None
    ) -> Metadata:
        """Return the keys of tokens that have scores.

        Args:
            model: how text is cut.
            further: keys that go before those of special tokens.
        """
        made: Metadata = {
            _MODEL: Value("string", model),
            "tokenizer.ggml.pre": Value("string", "default"),
            "tokenizer.ggml.tokens": Values("string", [one.text for one in tokens]),
            "tokenizer.ggml.scores": Values("f32", [one.score for one in tokens]),
            "tokenizer.ggml.token_type": Values("i32", [one.kind for one in tokens]),
        }
        return made | (further or {}) | self.special(len(tokens))

    def _tokens(self, tokenizer: Mapping[str, Json]) -> tuple[list[str], list[int]]:
        """Return the tokens of a tokenizer.json with their kinds, by number."""
        texts: dict[int, str] = {}
        for text, number in as_object(as_object(tokenizer.get("model")).get("vocab")).items():
            if not is_number(number, LIMIT_TOKENS):
                bad(TOKENIZER, f"has the token `{text[:40]}` with the number {number}")
            texts[number] = text
        added: dict[int, Mapping[str, Json]] = {}
        for one in as_list(tokenizer.get("added_tokens")):
            found = as_object(one)
            number, content = found.get("id"), found.get("content")
            if not is_number(number, LIMIT_TOKENS) or not isinstance(content, str):
                bad(TOKENIZER, "has an added token that is not understood")
            added[number] = found
            texts[number] = content
        size = self.hparams.optional("vocab_size")
        size = len(texts) if size is None else size
        _check_count(size)
        if texts and max(texts) >= size:
            self.hparams.bad("vocab_size", size, f"more than {max(texts)}, a token's number")
        tokens, kinds = [], []
        for number in range(size):
            text, kind = texts.get(number, f"[PAD{number}]"), Kind.NORMAL
            if number not in texts:
                kind = Kind.UNUSED
            elif number in added:
                if added[number].get("special") or looks_special(text):
                    kind = Kind.CONTROL
                else:
                    text, kind = text.replace(_SPACE, " "), Kind.USER_DEFINED
            tokens.append(text)
            kinds.append(int(kind))
        return tokens, kinds

    def _merges(self, model: Mapping[str, Json]) -> list[str]:
        found = as_list(model.get("merges"))
        if not found and "merges.txt" in self.documents:
            return list(_merges_of(self.documents.text("merges.txt")))
        merges = []
        for one in found:
            if isinstance(one, str):
                merges.append(one)
            elif isinstance(one, list) and len(one) == 2:  # noqa: PLR2004 - a pair
                merges.append(" ".join(str(part).replace(" ", "\u0120") for part in one))
            else:
                bad(TOKENIZER, "has merges that are not pairs")
        return merges


def looks_special(text: str) -> bool:
    """Return whether a token is one for control, although a tokenizer does not say so."""
    return text in _ALSO_SPECIAL or _SPECIAL.fullmatch(text) is not None


def _padded(tokens: Sequence[Token], size: int | None) -> Iterator[Token]:
    size = len(tokens) if size is None else size
    yield from tokens[:size]
    for number in range(len(tokens), size):
        yield Token(f"[PAD{number}]", -10000.0, Kind.UNUSED)


def _merges_of(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines()):
        parts = line.split(None, 3)
        if len(parts) == 2 and not (number == 0 and line.startswith("#")):  # noqa: PLR2004
            yield f"{parts[0]} {parts[1]}"


def _check_count(size: int) -> None:
    if size > LIMIT_TOKENS:
        bad(CONFIG, f"counts {size} tokens, the limit is {LIMIT_TOKENS}")
