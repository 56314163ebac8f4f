"""Read what a GGUF file says of its model: facts, vocabulary, factors of rotary embeddings."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from importer.formats.gguf.header import Header
from importer.formats.gguf.metadata import Array, Value
from importer.formats.gguf_names.facts import Fact, Facts
from importer.formats.gguf_names.rope import FACTORS
from importer.formats.gguf_names.vocabulary import (
    LIMIT_BYTES,
    LIMIT_LENGTH,
    LIMIT_TOKENS,
    Vocabulary,
)
from importer.sources.containers.gguf import read_elements
from importer.sources.file import SourceFile, opened, read_bytes

_VOCABULARY: Final = "tokenizer.ggml."
_LARGE: Final = 1 << 16
"""Elements of an array that are not read with the other facts: a block has one at most."""
_FACTOR_BYTES: Final = 1 << 16


def facts_of(file: SourceFile, header: Header) -> Facts:
    """Return the metadata of a file, without vocabularies."""
    values: dict[str, Fact] = {}
    for key, found in header.metadata.items():
        if isinstance(found, Value):
            values[key] = found.value
        elif found.length <= _LARGE and not key.startswith(_VOCABULARY):
            values[key] = list(read_elements(file, found))
    return Facts(f"`{file.path}`", values)


def vocabulary_of(file: SourceFile, header: Header) -> Vocabulary | str:
    """Return the vocabulary of a file, or why it is not read."""
    arrays = {
        key: header.metadata.get(_VOCABULARY + key)
        for key in ("tokens", "token_type", "scores", "merges", "precompiled_charsmap")
    }
    tokens = arrays["tokens"]
    if not isinstance(tokens, Array) or tokens.kind != "string":
        return "the file has no vocabulary"
    merges = arrays["merges"]
    pairs = merges if isinstance(merges, Array) and merges.kind == "string" else None
    if tokens.length > LIMIT_TOKENS or (pairs is not None and pairs.length > 2 * LIMIT_TOKENS):
        return f"it has {tokens.length} tokens, the limit is {LIMIT_TOKENS}"
    words = _words(file, tokens)
    if isinstance(words, str):
        return words
    kinds = _integers(file, arrays["token_type"], len(words))
    scores = _numbers(file, arrays["scores"], len(words))
    if kinds is None or scores is None:
        return f"kinds or scores are not as many as the {len(words)} tokens"
    charsmap = _integers(file, arrays["precompiled_charsmap"])
    odd = [number for number, score in enumerate(scores) if not math.isfinite(score)]
    if odd or charsmap is None:
        why = "its map of characters is not of bytes"
        return f"the score of token {odd[0]} is {scores[odd[0]]}" if odd else why
    return Vocabulary(
        tuple(words),
        kinds,
        tuple(float(score) for score in scores),
        lambda: _texts(file, pairs),
        bytes(byte & 0xFF for byte in charsmap),
    )


def _words(file: SourceFile, tokens: Array) -> list[str] | str:
    """Return the tokens, or why there are too many characters in them."""
    words: list[str] = []
    left = LIMIT_BYTES
    for number, word in enumerate(read_elements(file, tokens)):
        words.append(str(word))
        length = len(words[-1])
        if length > LIMIT_LENGTH:
            return f"token {number} has {length} characters, the limit is {LIMIT_LENGTH}"
        left -= length
        if left < 0:
            return f"its tokens are longer than {LIMIT_BYTES} characters"
    return words


def factors_of(file: SourceFile, header: Header) -> Mapping[str, bytes]:
    """Return the values of the small tensors that belong to the configuration."""
    found = {}
    with opened(file) as descriptor:
        for tensor in header.tensors:
            is_small = tensor.kind.name == "F32" and tensor.nbytes <= _FACTOR_BYTES
            if tensor.name in FACTORS and is_small:
                start = tensor.offset
                data = read_bytes(file, descriptor, start, start + tensor.nbytes)
                found[tensor.name] = _swapped(data) if header.is_big else data
    return found


def _swapped(data: bytes) -> bytes:
    form = f"{len(data) // 4}I"
    return struct.pack(f"<{form}", *struct.unpack(f">{form}", data))


def _texts(file: SourceFile, array: Array | None) -> Iterable[str]:
    if array is not None:
        yield from map(str, read_elements(file, array))


def _integers(
    file: SourceFile, array: Value | Array | None, count: int | None = None
) -> tuple[int, ...] | None:
    """Return the integers of an array, as `_numbers` does."""
    is_float = isinstance(array, Array) and array.kind.startswith("f")
    found = None if is_float else _numbers(file, array, count)
    return None if found is None else tuple(map(int, found))


def _numbers(
    file: SourceFile, array: Value | Array | None, count: int | None
) -> tuple[float, ...] | None:
    """Return the numbers of an array; none where it is missing, None where it does not fit."""
    if not isinstance(array, Array):
        return ()
    fits = array.length == count if count is not None else array.length <= LIMIT_BYTES
    if not fits or array.kind in {"string", "array"}:
        return None
    return tuple(n for n in read_elements(file, array) if isinstance(n, (int, float)))
