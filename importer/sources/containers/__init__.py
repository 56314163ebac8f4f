"""The formats of weights files that are read, one line each."""

from __future__ import annotations

from typing import Final

from importer.sources.base import SourceFormat
from importer.sources.containers.gguf import Gguf
from importer.sources.containers.onnx import Onnx
from importer.sources.containers.pytorch import PyTorch
from importer.sources.containers.safetensors import Safetensors
from importer.sources.containers.uqff import KEY as UQFF
from importer.sources.containers.uqff import Uqff

FORMATS: Final[dict[str, SourceFormat]] = {
    "safetensors": Safetensors(),
    "pytorch": PyTorch(),
    "gguf": Gguf(),
    UQFF: Uqff(),
    "onnx": Onnx(),
}
"""In this order one is taken where a directory has weights in several."""
