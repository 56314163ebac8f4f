"""Every tensor of every fixture, of every type: the bits that MLX makes, or the source's."""

from __future__ import annotations

import json
import runpy

import mlx.core as mx
import numpy as np
import pytest
import safetensors

from importer.codecs.spec import QUANT_TYPES
from importer.recipes.options import parse_options
from importer.recipes.toml_file import presets, read_recipe
from store import MediaType, ModelName, Store
from tests.importer.builders import FIXTURES, GOLDEN, MODELS, REPOSITORY, create

GOLDEN_SCRIPT = runpy.run_path(str(REPOSITORY / "fixtures" / "golden.py"))
MLX = {"BF16": mx.bfloat16, "F16": mx.float16, "F32": mx.float32}
WORDS = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32}
CASES = [
    *((preset, kind) for preset in ("default", "uniform", "ollama") for kind in QUANT_TYPES),
    *((preset, None) for preset in presets() if not read_recipe(preset).asks),
    ("downcast", "bf16"),
    ("downcast", "f16"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for all, so that what is alike is written once."""
    with Store(tmp_path_factory.mktemp("oracle") / "store") as store:
        yield store


def sources(fixture):
    """Name -> dtype, shape and bytes of every tensor of a model, read without our importer."""
    model = MODELS / fixture
    return {
        prefix + name: (entry["dtype"], entry["shape"], bytes(entry["data"]))
        for prefix, directory in GOLDEN_SCRIPT["components"](model).items()
        for path in GOLDEN_SCRIPT["weight_files"](directory)
        for name, entry in safetensors.deserialize(path.read_bytes())
    }


def layers(store):
    """Name -> digest of each tensor layer."""
    manifest = store.catalog.get(ModelName.parse("m")).parse()
    return {x.name: x.digest for x in manifest.layers if x.media_type == MediaType.TENSOR}


def stored(store, model):
    """Name -> metadata of its blob, and dtype, shape and bytes of what is in it."""
    found = {}
    prefixes = GOLDEN_SCRIPT["components"](model)
    for layer, digest in layers(store).items():
        prefix = next(one for one in prefixes if layer.startswith(one))
        content = (store.layout.blobs / f"sha256-{digest.hex}").read_bytes()
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
        metadata = {prefix * ("." in key) + key: text for key, text in metadata.items()}
        for key, entry in safetensors.deserialize(content):
            name = prefix + key
            assert name not in found
            found[name] = (metadata, (entry["dtype"], entry["shape"], bytes(entry["data"])))
    return found


def values(tensor):
    dtype, shape, content = tensor
    return mx.array(np.frombuffer(content, WORDS[dtype]).reshape(shape)).view(MLX[dtype])


def content_of(array):
    return bytes(memoryview(array.flatten().view(mx.uint8)))


def quantized(tensor, kind, group_size):
    """Suffix -> dtype, shape and bytes, as MLX makes them on the CPU."""
    spec = QUANT_TYPES[kind]
    with mx.stream(mx.cpu):
        parts = mx.quantize(
            values(tensor), group_size=group_size, bits=spec.bits, mode=str(spec.mode)
        )
        dtypes = ["U32", tensor[0], tensor[0]] if len(parts) > 2 else ["U32", "U8"]
        return {
            suffix: (dtype, list(part.shape), content_of(part))
            for suffix, dtype, part in zip(("", ".scale", ".bias"), dtypes, parts, strict=False)
        }


# The fourth fixture has tensors of every dtype: codecs/test_cast.py looks at F64.
@pytest.mark.parametrize("fixture", [name for name in FIXTURES if name != "single-file"])
@pytest.mark.parametrize(("preset", "kind"), CASES)
def test_every_blob_is_what_mlx_makes_of_the_source(store, fixture, preset, kind):
    # Bits, tensor by tensor: what stacks are made of is tested elsewhere.
    create(store, MODELS / fixture, recipe=parse_options(kind, recipe=preset, stacked=False))

    blobs, kinds = stored(store, MODELS / fixture), set()
    for name, tensor in sources(fixture).items():
        metadata, weights = blobs.pop(name)
        if f"{name}.scale" in blobs:
            own = metadata.get(f"{name}.quant_type", metadata.get("quant_type"))
            size = int(metadata.get(f"{name}.group_size", metadata.get("group_size")))
            expected = quantized(tensor, own, size)
            parts = {suffix: blobs.pop(name + suffix)[1] for suffix in expected if suffix}
            assert {"": weights, **parts} == expected, name
            kinds.add(own)
        elif weights[0] != tensor[0]:
            with mx.stream(mx.cpu):
                cast = content_of(values(tensor).astype(MLX[weights[0]]))
            assert weights == (kind.upper(), tensor[1], cast)
        else:
            assert weights == tensor, name
        if preset == "downcast" and tensor[0] in MLX:
            assert weights[0] == kind.upper()
    assert blobs == {}
    if preset in {"default", "uniform"}:
        assert kind in kinds


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize("kind", QUANT_TYPES)
def test_digests_are_those_that_are_committed(store, fixture, kind):
    create(store, MODELS / fixture, recipe=parse_options(kind, recipe="uniform"))

    golden = json.loads((GOLDEN / f"{fixture}.{kind}.json").read_bytes())
    assert {name: str(digest) for name, digest in layers(store).items()} == golden
