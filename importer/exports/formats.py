"""The formats of exports that are written, one line each."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

from importer.exports.base import ExportFormat

_CLASSES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "gguf": ("importer.exports.gguf.format", "Gguf"),
        "hf": ("importer.exports.huggingface", "HuggingFace"),
        "mlx": ("importer.exports.mlx", "Mlx"),
        "uqff": ("importer.exports.uqff.format", "Uqff"),
    }
)
"""Module and class by the word that chooses them: an export imports its own format alone."""


@functools.cache
def format_of(word: str) -> ExportFormat:
    """Return the format that a word chooses."""
    module, name = _CLASSES[word]
    return cast("ExportFormat", getattr(importlib.import_module(module), name)())
