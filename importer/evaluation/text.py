"""A text as sequences of tokens: windows of it for language models, lines for encoders."""

# ruff: noqa: ANN401 - torch and transformers, of which there are no types here

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, NamedTuple

from store.errors import InputError, NotFoundError
from store.text import printable

_LARGEST: Final = 1 << 28
_LEAST: Final = 2
"""Tokens of a sequence: one to read and one to foresee."""


class Text(NamedTuple):
    """A text, read whole.

    Attributes:
        name: of its file.
        digest: SHA-256 of its bytes.
    """

    name: str
    content: str
    nbytes: int
    digest: str


class Sequences(NamedTuple):
    """Tokens, as a model gets them.

    Attributes:
        ids: of each sequence.
        context: tokens that it has at most.
    """

    ids: tuple[tuple[int, ...], ...]
    context: int

    @property
    def tokens(self) -> int:
        """How many there are."""
        return sum(map(len, self.ids))


def read_text(path: Path) -> Text:
    """Read a text.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is empty, too large, or not UTF-8.
    """
    where = f"`{printable(str(path))}`"
    if not path.is_file():
        raise NotFoundError(
            f"there is no file {where}", code="E_NOT_FOUND", hint="Check the path"
        )
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{where} has more than {_LARGEST} bytes", code="E_LIMIT")
    data = path.read_bytes()
    try:
        content = data.decode()
    except UnicodeDecodeError as error:
        message = f"{where} is not UTF-8: {error.reason} at byte {error.start}"
        raise InputError(message, code="E_TEXT") from error
    if not content.strip():
        raise InputError(f"{where} has no text", code="E_TEXT")
    return Text(path.name, content, len(data), hashlib.sha256(data).hexdigest())


def windows(text: Text, tokenizer: Any, context: int, limit: int | None) -> Sequences:
    """Cut a text into windows that do not overlap, as llama-perplexity does.

    Each begins with the token that begins a text, where the tokenizer puts one there.

    Args:
        text: to cut.
        tokenizer: of the model.
        context: tokens of a window.
        limit: windows at most, or None.

    Raises:
        InputError: it has less than two tokens.
    """
    plain = tokenizer(text.content, add_special_tokens=False, verbose=False)["input_ids"]
    begins = list(tokenizer("a")["input_ids"][:1])
    own = [tokenizer.bos_token_id] if begins == [tokenizer.bos_token_id] else []
    step = context - len(own)
    found = [(*own, *plain[start : start + step]) for start in range(0, len(plain), step)]
    return _chosen(text, found, context, limit)


def lines(text: Text, tokenizer: Any, context: int, limit: int | None) -> Sequences:
    """Take each line for a text of its own, cut where it is too long.

    The arguments are those of `windows`.

    Raises:
        InputError: no line has two tokens.
    """
    some = [line for line in text.content.splitlines() if line.strip()][:limit]
    found = [
        tuple(tokenizer(line, truncation=True, max_length=context)["input_ids"])
        for line in some
    ]
    return _chosen(text, found, context, limit)


def _chosen(
    text: Text, found: list[tuple[int, ...]], context: int, limit: int | None
) -> Sequences:
    ids = tuple(one for one in found if len(one) >= _LEAST)[:limit]
    if not ids:
        raise InputError(
            f"`{printable(text.name)}` has no sequence of {_LEAST} tokens", code="E_TEXT"
        )
    return Sequences(ids, context)
