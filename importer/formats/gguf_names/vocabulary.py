"""The vocabulary of a GGUF file: tokens with their kinds and scores, and pairs that merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final

from store.json import Json

LIMIT_TOKENS: Final = 1 << 20
"""Tokens, and pairs, of which a tokenizer.json is written: more would fill the memory."""
LIMIT_BYTES: Final = 24 << 20
LIMIT_LENGTH: Final = 1 << 12
"""Characters of a token, which is cut at each of them when pairs are sought."""


@unique
class Kind(IntEnum):
    """What a token is, by its number in `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The vocabulary.

    Attributes:
        tokens: by number.
        kinds: of each token, or none.
        scores: of each token, or none.
        merges: reads the pairs, in the order in which they merge: `a b`.
        charsmap: of a Unigram model, compiled by SentencePiece.
    """

    tokens: tuple[str, ...]
    kinds: tuple[int, ...]
    scores: tuple[float, ...]
    merges: Callable[[], Iterable[str]]
    charsmap: bytes = b""

    def kind(self, number: int) -> int:
        """Return the kind of a token."""
        return self.kinds[number] if self.kinds else Kind.NORMAL

    def has(self, *kinds: Kind) -> bool:
        """Return whether there is a token of one of some kinds."""
        return any(kind in kinds for kind in self.kinds)

    def added(self) -> Iterator[dict[str, Json]]:
        """Yield the tokens that are found in text before it is cut into words."""
        for number, token in enumerate(self.tokens):
            kind = self.kind(number)
            if kind in {Kind.CONTROL, Kind.USER_DEFINED, Kind.UNKNOWN} and token:
                yield {
                    "id": number,
                    "content": token,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": kind != Kind.USER_DEFINED,
                }

    def pairs_by_score(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs whose joint is a token, those of the best joint first.

        SentencePiece merges the two neighbors whose joint has the highest score; Hugging
        Face's BPE those that are first in a list. Of several ways to cut a token the one with
        the longest start comes first.
        """
        whole = {
            token: number
            for number, token in enumerate(self.tokens)
            if self.kind(number) in {Kind.NORMAL, Kind.USER_DEFINED}
        }
        order = sorted(whole.values(), key=lambda number: -self.scores[number])
        start = 0
        while start < len(order):
            stop = start
            score = self.scores[order[start]]
            found: list[tuple[str, str]] = []
            while stop < len(order) and self.scores[order[stop]] == score:
                token = self.tokens[order[stop]]
                cuts = ((token[:at], token[at:]) for at in range(1, len(token)))
                found += (cut for cut in cuts if cut[0] in whole and cut[1] in whole)
                stop += 1
            yield from sorted(found, key=lambda cut: (-len(cut[0]), -len(cut[1])))
            start = stop
