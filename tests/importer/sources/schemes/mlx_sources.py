"""Sources that MLX writes, and what it loads from a store."""

from __future__ import annotations

import pytest

from store import MediaType, ModelName
from tests.importer.builders import write

mx = pytest.importorskip("mlx.core")

NAME = ModelName.parse("m")
X = "model.layers.0.mlp.up_proj"
DTYPES = {"BF16": mx.bfloat16, "F16": mx.float16, "F32": mx.float32}
PARTS = ("weight", "scales", "biases")
SUFFIXES = ("", ".scale", ".bias")


def quantized(stem, shape, kind, dtype="BF16"):
    """What MLX's own layers hold after `to_quantized`; `kind` is mode, bits and group."""
    mode, bits, size = kind
    mx.random.seed(len(stem))
    values = mx.random.normal(shape).astype(DTYPES[dtype])
    parts = mx.quantize(values, size, bits, mode)
    return {f"{stem}.{part}": array for part, array in zip(PARTS, parts, strict=False)}


def config(mode, bits, size, **modules):
    return {"bits": bits, "group_size": size, "mode": mode, **modules}


def save(directory, arrays, quantization=None):
    directory.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(directory / "model.safetensors"), arrays, {"format": "mlx"})
    document = {"quantization": quantization} if quantization is not None else {}
    return write(directory, {"config.json": document})


def loaded(store, name=NAME):
    """All that MLX loads from a model's blobs."""
    found = {}
    for layer in store.catalog.get(name).parse().layers:
        if layer.media_type == MediaType.TENSOR:
            path = store.blobs.path(layer.digest)
            found |= mx.load(str(path), format="safetensors")
    return found


def data(array):
    return bytes(memoryview(array.view(mx.uint8)))
