"""Context length and embedding length, as a source's `config.json` tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from importer.sources.configuration import with_inner
from store.errors import InputError
from store.json import Json
from store.text import printable

_CONTEXT: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "n_ctx",
    "seq_length",
    "context_length",
    "max_target_positions",
)
_EMBEDDING: Final = ("hidden_size", "n_embd", "d_model", "dim", "word_embed_proj_dim")
_LARGEST: Final = 2**31 - 1
_EXACT: Final = 2.0**24


def context_length(config: Mapping[str, Json]) -> int | None:
    """Return how many tokens a model reads, or None where its configuration does not say.

    Raises:
        InputError: the configuration says it with a value that cannot be a length.
    """
    return _length(config, _CONTEXT)


def embedding_length(config: Mapping[str, Json]) -> int | None:
    """Return the width of a model's hidden state, or None where nothing says it.

    Raises:
        InputError: the configuration says it with a value that cannot be a length.
    """
    return _length(config, _EMBEDDING)


def _length(config: Mapping[str, Json], keys: tuple[str, ...]) -> int | None:
    for part in with_inner(config):
        for key in keys:
            value = part.get(key)
            if value is None or isinstance(value, (list, dict)):
                continue  # a length for each stage is not one length
            length = value
            if isinstance(value, float) and value.is_integer() and value < _EXACT:
                length = int(value)  # transformers writes 1200.0 for music-flamingo
            if type(length) is not int or not 0 < length <= _LARGEST:
                raise InputError(
                    f"`config.json`: `{key}` is {printable(repr(value))}, expected an integer "
                    f"from 1 to {_LARGEST}",
                    code="E_CONFIG",
                    hint="The configuration is not of this model: fetch it again",
                )
            return length
    return None
