"""What files of weights say about themselves, as far as a model's record keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FileMetadata = Mapping[str, Mapping[str, str]]
"""Keys and values of each file that says something, by path."""

_USUAL: Final = {"format": "pt"}
"""Of nearly every checkpoint, and what is written again where nothing else is known."""
_LARGEST: Final = 1 << 20
"""Bytes of all keys and values: a configuration is read as a whole."""


def told(metadata: FileMetadata) -> FileMetadata:
    """Return what is worth recording: not `{"format": "pt"}`, and no empty metadata."""
    return {
        path: dict(said) for path, said in sorted(metadata.items()) if said not in ({}, _USUAL)
    }


def fits_record(metadata: FileMetadata) -> bool:
    """Return whether what files say is small enough for a configuration."""
    texts = (key + value for said in metadata.values() for key, value in said.items())
    return sum(len(text.encode()) for text in texts) <= _LARGEST
