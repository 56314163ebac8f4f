"""Tiny models for exports to UQFF, and digests of what is written of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.importer.exports.exporting import arrays_in
from tests.importer.formats.uqff.tiny_models import Sizes, write_model

TARGET = Path(__file__).parents[3] / "fixtures" / "uqff" / "written.json"
AFQ = ("AFQ2", "AFQ3", "AFQ4", "AFQ6", "AFQ8")
LEGACY = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
K = ("Q2K", "Q3K", "Q4K", "Q5K", "Q6K")
OTHER = ("HQQ4", "HQQ8", "FP8", "F8Q8", "MXFP4")
CASES = {
    # Blocks of 256 do not fit: K types fall back to others, which are ggml's to the byte.
    "llama": ("llama", Sizes(64, 4, 2, 128), (*AFQ, *LEGACY, *K, *OTHER)),
    "qwen2": ("qwen2", Sizes(64, 4, 2, 128), ("AFQ4", "Q4_0", "Q8_0", "HQQ4", "F8Q8")),
    "qwen3_moe": ("qwen3_moe", Sizes(64, 4, 2, 64), (*AFQ, *LEGACY)),
    "narrow": ("llama", Sizes(96, 4, 2, 128), ("Q4K", "HQQ4", "MXFP4")),
}
"""Name -> model type, sizes, and the types that mistral.rs writes as we do."""


def checkpoint(directory, name):
    """Write one of them."""
    kind, sizes, _ = CASES[name]
    return write_model(directory, kind, sizes)


def digests(directory):
    """For the shards, and for the file beside them: how many arrays, and a digest of all."""
    return [
        _digest(sorted(directory.glob("*.uqff"))),
        _digest([directory / "residual.safetensors"]),
    ]


def _digest(paths):
    found = {}
    for path in paths:
        found |= arrays_in(path)
    named = [name for name in sorted(found) if not name.startswith("uqff.version.")]
    sha256 = hashlib.sha256()
    for name in named:
        dtype, shape, data = found[name]
        sha256.update(f"{name} {dtype} {list(shape)} ".encode() + data)
    return {"arrays": len(named), "sha256": sha256.hexdigest()}
