"""What a tokenizer.json makes of a text: numbers of tokens.

Enough of Hugging Face's tokenizers for one short text; what is not understood is not encoded.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from importer.exports.gguf.documents import as_list, as_object
from importer.exports.gguf.expressions import NotEncodedError, cut, matches
from importer.exports.gguf.wordpiece import bert_normalized, bert_words, pieces
from store.json import Json

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_PUNCTUATION: Final = {
    "Isolated": r"[!-/:-@\[-`{-~\p{P}]",
    "Contiguous": r"[!-/:-@\[-`{-~\p{P}]+",
}
_FORMS: Final = frozenset({"NFC", "NFD", "NFKC", "NFKD"})


class Encoding:
    """Encodes one text as a tokenizer does, with what it puts around text."""

    def __init__(
        self, tokenizer: Mapping[str, Json], model: Mapping[str, Json], merges: Sequence[str]
    ) -> None:
        """Take a tokenizer.json, its model, and pairs, `a b`, in their order."""
        self._tokenizer = tokenizer
        self._model = model
        self._merges = merges
        vocab = model.get("vocab")
        self._vocab = vocab if isinstance(vocab, dict) else {}

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the tokens.

        Raises:
            NotEncodedError: a part of the tokenizer is not understood.
        """
        words: list[str | int] = []
        for piece in self._without_added(text):
            if isinstance(piece, int):
                words.append(piece)
                continue
            normal = _normalized(self._tokenizer.get("normalizer"), piece)
            words += _words(self._tokenizer.get("pre_tokenizer"), [normal])
        ranks = self._ranks("\n".join(word for word in words if isinstance(word, str)))
        numbers: list[int] = []
        for word in words:
            numbers += [word] if isinstance(word, int) else self._tokens(word, ranks)
        return self._surrounded(numbers)

    def _without_added(self, text: str) -> Iterator[str | int]:
        """Yield what is between added tokens, and these by their numbers."""
        added: dict[str, int] = {}
        for one in as_list(self._tokenizer.get("added_tokens")):
            if not isinstance(one, dict):
                raise NotEncodedError
            content, number = one.get("content"), one.get("id")
            if not isinstance(content, str) or not isinstance(number, int):
                raise NotEncodedError
            if content and content in text:
                if any(one.get(key) for key in ("lstrip", "rstrip", "single_word")):
                    raise NotEncodedError
                added[content] = number
        if not added:
            yield text
            return
        longest = sorted(added, key=len, reverse=True)
        for piece in re.split(f"({'|'.join(map(re.escape, longest))})", text):
            if piece:
                yield added.get(piece, piece)

    def _ranks(self, text: str) -> dict[tuple[str, str], int]:
        """Return the ranks of the pairs whose joint is in the text; others never merge."""
        ranks: dict[tuple[str, str], int] = {}
        for rank, pair in enumerate(self._merges):
            first, _, second = pair.partition(" ")
            if first + second in text:
                ranks.setdefault((first, second), rank)
        return ranks

    def _tokens(self, word: str, ranks: Mapping[tuple[str, str], int]) -> Iterator[int]:
        if self._model.get("type") == "WordPiece":
            yield from pieces(word, self._model, self._vocab)
            return
        whole = self._vocab.get(word)
        if self._model.get("ignore_merges") and isinstance(whole, int):
            yield whole
            return
        parts = list(word)
        while len(parts) > 1:
            pairs = [ranks.get(pair, len(self._merges)) for pair in itertools.pairwise(parts)]
            least = min(pairs)
            if least == len(self._merges):
                break
            at = pairs.index(least)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        for part in parts:
            number = self._vocab.get(part)
            if not isinstance(number, int):
                raise NotEncodedError
            yield number

    def _surrounded(self, numbers: list[int]) -> list[int]:
        """Return numbers with those of the tokens around a text."""
        found = self._tokenizer.get("post_processor")
        if found is None:
            return numbers
        if not isinstance(found, dict):
            raise NotEncodedError
        inner = found.get("processors")
        for one in inner if isinstance(inner, list) else [found]:
            kind = one.get("type") if isinstance(one, dict) else None
            if kind == "TemplateProcessing" and isinstance(one, dict):
                numbers = _in_template(one, numbers)
            elif kind in {"RobertaProcessing", "BertProcessing"} and isinstance(one, dict):
                ends = [one.get(key) for key in ("cls", "sep")]
                first, last = (_second(end) for end in ends)
                numbers = [first, *numbers, last]
            elif kind != "ByteLevel":
                raise NotEncodedError
        return numbers


def _in_template(processor: Mapping[str, Json], numbers: list[int]) -> list[int]:
    known = processor.get("special_tokens")
    made: list[int] = []
    for part in as_list(processor.get("single")):
        if not isinstance(part, dict) or not isinstance(known, dict):
            raise NotEncodedError
        if "Sequence" in part:
            made += numbers
            continue
        special = part.get("SpecialToken")
        name = special.get("id") if isinstance(special, dict) else None
        told = known.get(str(name))
        ids = told.get("ids") if isinstance(told, dict) else None
        if not isinstance(ids, list):
            raise NotEncodedError
        made += [number for number in ids if isinstance(number, int)]
    return made


def _normalized(step: Json, text: str) -> str:  # noqa: PLR0911 - one for each kind
    if step is None:
        return text
    if not isinstance(step, dict):
        raise NotEncodedError
    kind = step.get("type")
    if kind == "Sequence":
        for inner in as_list(step.get("normalizers")):
            text = _normalized(inner, text)
        return text
    if kind in _FORMS:
        return unicodedata.normalize(str(kind), text)  # type: ignore[arg-type]  # of _FORMS
    if kind == "Lowercase":
        return text.lower()
    if kind == "Prepend":
        return f"{step.get('prepend')}{text}"
    if kind == "BertNormalizer":
        return bert_normalized(step, text)
    plain = as_object(step.get("pattern")).get("String")
    if kind == "Replace" and isinstance(plain, str):
        return text.replace(plain, str(step.get("content")))
    raise NotEncodedError


def _words(step: Json, words: Sequence[str]) -> list[str]:  # noqa: PLR0911 - likewise
    """Return the words that a pre-tokenizer makes of others."""
    if step is None:
        return list(words)
    if not isinstance(step, dict):
        raise NotEncodedError
    kind = step.get("type")
    if kind == "Sequence":
        found = list(words)
        for inner in as_list(step.get("pretokenizers")):
            found = _words(inner, found)
        return found
    if kind == "BertPreTokenizer":
        return [one for word in words for one in bert_words(word)]
    if kind == "Split":
        return [one for word in words for one in _split(step, word)]
    if kind == "Digits":
        pattern = r"\p{N}" if step.get("individual_digits") else r"\p{N}+"
        return [one for word in words for one in cut(pattern, word)]
    how = str(step.get("behavior", "Isolated"))
    if kind == "Punctuation" and how in _PUNCTUATION:
        return [one for word in words for one in cut(_PUNCTUATION[how], word)]
    if kind == "ByteLevel":
        return list(_byte_level(step, words))
    raise NotEncodedError


def _split(step: Mapping[str, Json], word: str) -> Iterator[str]:
    pattern = step.get("pattern")
    if not isinstance(pattern, dict):
        raise NotEncodedError
    regex = pattern.get("Regex")
    regex = re.escape(str(pattern.get("String"))) if regex is None else str(regex)
    behavior, invert = step.get("behavior"), bool(step.get("invert"))
    if behavior == "Isolated":
        yield from cut(regex, word)
    elif behavior == "Removed":
        for found, is_match in matches(regex, word):
            if is_match is invert:
                yield found
    else:
        raise NotEncodedError


def _byte_level(step: Mapping[str, Json], words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if step.get("add_prefix_space") and not word.startswith(" "):
            word = f" {word}"  # noqa: PLW2901
        pieces = cut(_GPT2, word) if step.get("use_regex", True) else [word]
        for piece in pieces:
            yield "".join(_LETTERS[byte] for byte in piece.encode())


def _second(pair: Json) -> int:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], int):  # noqa: PLR2004
        raise NotEncodedError
    return pair[1]


def _letters() -> list[str]:
    """Return GPT-2's letters: one that can be printed for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


_LETTERS: Final = _letters()
