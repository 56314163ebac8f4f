"""The formats of exports that are written, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from importer.exports.base import ExportFormat
from importer.exports.gguf.format import Gguf
from importer.exports.huggingface import HuggingFace
from importer.exports.mlx import Mlx
from importer.exports.uqff.format import Uqff

FORMATS: Final[Mapping[str, ExportFormat]] = MappingProxyType(
    {
        "gguf": Gguf(),
        "hf": HuggingFace(),
        "mlx": Mlx(),
        "uqff": Uqff(),
    }
)
"""By the word that chooses it."""
