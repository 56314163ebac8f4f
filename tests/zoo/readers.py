"""What a source holds and what a store holds, read with `json` and `safetensors` alone.

Nothing here is shared with ingot: the rules of design.md are written a second time.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import safetensors

NAMESPACE: Final = "manifests/registry.ollama.ai/library"
TENSOR: Final = "application/vnd.ollama.image.tensor"
JSON: Final = "application/vnd.ollama.image.json"
LICENSE: Final = "application/vnd.ollama.image.license"
FILE: Final = "application/vnd.ingot.image.file"
CONFIG: Final = "application/vnd.docker.container.image.v1+json"

INDEXES: Final = ("model_index.json", "modular_model_index.json")
STEMS: Final = ("model", "diffusion_pytorch_model")
FOREIGN: Final = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".ot", ".onnx", ".gguf")
BLOCKS: Final = ("layers", "blocks", "h")
EXPERTS: Final = ("experts", "shared_experts", "shared_expert", "shared_mlp", "switch_mlp")

FACTS: Final = ("quant_type", "group_size")
"""What metadata says of a quantized tensor."""


class Tensor(NamedTuple):
    """A tensor, all of it."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        sha256 = hashlib.sha256(self.data).hexdigest()[:8]
        return f"{self.dtype} {list(self.shape)} {sha256}"


@dataclass(slots=True)
class Checkpoint:
    """What a source holds, or a stored model.

    Attributes:
        files: media type and bytes of each.
        components: directories with weights, empty where the source itself has them.
        below: the tensors below experts, with the name that the experts share.
        groups: those that do not have a blob of their own, with the name of its layer.
        blobs: distinct, with their sizes.
        problems: of the stored model alone, as sentences.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    components: list[str] = field(default_factory=list)
    below: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_source(source: Path, variant: str | None) -> Checkpoint:
    """Read a source as `from_pretrained(variant=variant)` would, and what is beside it."""
    checkpoint = Checkpoint(files=dict(_kept_files(source)))
    for component in _components(source):
        prefix = f"{component}/" if component else ""
        files = _weights(source / component, variant)
        if component and files:
            checkpoint.components.append(component)
        for file in files:
            for name, tensor in _read_safetensors(file).items():
                assert prefix + name not in checkpoint.tensors, name
                checkpoint.tensors[prefix + name] = tensor
                if experts := _experts(name):
                    checkpoint.below[prefix + name] = prefix + experts
    is_quantized = _is_quantized(source)
    shapes = {name: tensor.shape for name, tensor in checkpoint.tensors.items()}
    checkpoint.groups = groups(shapes, checkpoint.below, is_quantized=is_quantized)
    assert checkpoint.tensors, source
    return checkpoint


def groups(
    shapes: Mapping[str, tuple[int, ...]], below: Mapping[str, str], *, is_quantized: bool
) -> dict[str, str]:
    """Return which tensors share a blob, with its layer's name.

    Below experts `.weight` matrices do, and whatever has three dimensions; where the source is
    quantized, all but biases. One alone does not.

    Args:
        shapes: of all tensors.
        below: those below experts, with the name that these share.
        is_quantized: whether the source is.
    """
    found = {}
    for name, experts in below.items():
        rank = len(shapes[name])
        is_matrix = rank == 2 and name.endswith(".weight")
        if not name.endswith("bias") if is_quantized else is_matrix or rank == 3:
            found[name] = experts
    sizes = Counter(found.values())
    return {name: experts for name, experts in found.items() if sizes[experts] > 1}


def _is_quantized(source: Path) -> bool:
    config = source / "config.json"
    return config.exists() and "quantization_config" in json.loads(config.read_bytes())


def _components(source: Path) -> Iterator[str]:
    indexes = [source / name for name in INDEXES if (source / name).exists()]
    if not indexes:
        yield ""
    for index in indexes:
        for name, value in json.loads(index.read_bytes()).items():
            if isinstance(value, list) and value[0] is not None:
                yield name
                if value[1].startswith("Multi"):  # only the first has an entry
                    numbered = (f"{name}_{number}" for number in range(1, 9))
                    yield from (one for one in numbered if (source / one).exists())


def _weights(directory: Path, variant: str | None) -> list[Path]:
    for one in dict.fromkeys((variant, None)):
        tail = f".{one}" if one else ""
        for stem in STEMS:
            whole = directory / f"{stem}{tail}.safetensors"
            index = directory / f"{stem}.safetensors.index{tail}.json"
            if whole.exists():
                return [whole]
            if index.exists():
                shards = set(json.loads(index.read_bytes())["weight_map"].values())
                return [directory / shard for shard in sorted(shards)]
    return []


def _experts(name: str) -> str | None:
    parts = name.split(".")
    for block in range(len(parts) - 1):
        if parts[block] in BLOCKS and parts[block + 1].isdigit():
            for end in range(block + 2, len(parts) - 1):
                if parts[end] in EXPERTS:
                    return ".".join(parts[: end + 1])
    return None


def _kept_files(source: Path) -> Iterator[tuple[str, tuple[str, bytes]]]:
    for path in source.rglob("*"):
        relative = path.relative_to(source)
        directories = set(relative.parts[:-1])
        hidden = any(part.startswith(".") for part in directories)
        foreign = directories & {"onnx", "openvino"} or path.name.endswith(FOREIGN)
        weights = path.suffix == ".safetensors"
        index = ".safetensors.index." in path.name or ".bin.index." in path.name
        if path.is_file() and not (hidden or foreign or weights or index):
            yield relative.as_posix(), (_media_type(relative), path.read_bytes())


def _media_type(path: Path) -> str:
    if path.suffix == ".json":
        return JSON
    at_root = len(path.parts) == 1
    if at_root and path.name.lower().startswith(("license", "licence", "copying")):
        return LICENSE
    return FILE


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    return {
        name: Tensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for name, entry in safetensors.deserialize(path.read_bytes())
    }


def read_stored(store: Path, name: str) -> Checkpoint:
    """Read a model from manifest and blobs; what contradicts itself is a problem."""
    checkpoint = Checkpoint()
    manifest = json.loads((store / NAMESPACE / name / "latest").read_bytes())
    config = json.loads(_read_blob(store, manifest["config"], checkpoint).read_bytes())
    checkpoint.components = config["ingot"].get("components", [])
    if manifest["config"]["mediaType"] != CONFIG:
        checkpoint.problems.append(f"config is {manifest['config']['mediaType']}")
    order = []
    for layer in manifest["layers"]:
        path = _read_blob(store, layer, checkpoint)
        if layer["mediaType"] == TENSOR:
            _add_tensors(checkpoint, layer, _read_safetensors(path))
            order.append((0 if "dtype" in layer else 1, layer["name"].encode()))
        else:
            if layer["name"] in checkpoint.files:
                checkpoint.problems.append(f"file {layer['name']} is there twice")
            checkpoint.files[layer["name"]] = (layer["mediaType"], path.read_bytes())
            order.append((2, layer["name"].encode()))
    if order != sorted(order):
        checkpoint.problems.append("layers are not in order: tensors, groups, files")
    return checkpoint


def _read_blob(store: Path, layer: Mapping[str, Any], checkpoint: Checkpoint) -> Path:
    path = store / "blobs" / layer["digest"].replace(":", "-")
    checkpoint.blobs[layer["digest"]] = layer["size"]
    data = path.read_bytes()
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != layer["digest"]:
        checkpoint.problems.append(f"{layer['digest']} does not hash to its name")
    if len(data) != layer["size"]:
        checkpoint.problems.append(f"{layer['digest']} has {len(data)} bytes, not {layer}")
    return path


def component_prefix(layer: str, components: list[str]) -> str:
    """Return what a layer's name has in front of the keys in its blob."""
    return next((f"{one}/" for one in components if layer.startswith(f"{one}/")), "")


def _add_tensors(
    checkpoint: Checkpoint, layer: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    prefix = component_prefix(layer["name"], checkpoint.components)
    tensors = {prefix + key: tensor for key, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if name in checkpoint.tensors:
            checkpoint.problems.append(f"{name} is stored twice")
        checkpoint.tensors[name] = tensor
        if "dtype" not in layer:
            checkpoint.groups[name] = layer["name"]
    if "dtype" in layer:
        expected = {layer["name"]: (layer["dtype"], tuple(layer["shape"]))}
        found = {name: tensor[:2] for name, tensor in tensors.items()}
        if found != expected:
            checkpoint.problems.append(f"layer says {expected}, its blob {found}")


def global_keys(
    stored: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]],
) -> Iterator[str]:
    """Say which groups have global keys that do not hold for all members, or lack them."""
    layers: dict[str, tuple[Mapping[str, str], list[str]]] = {}
    for name, (layer, metadata) in stored.items():
        layers.setdefault(layer["name"], (metadata, []))[1].append(name)
    for layer_name, (metadata, keys) in layers.items():
        members = [
            key for key in keys if key.removesuffix(".scale").removesuffix(".bias") == key
        ]
        kinds = {tuple(metadata.get(f"{key}.{fact}") for fact in FACTS) for key in members}
        alike = kinds.pop() if len(kinds) == 1 else (None, None)
        if (said := tuple(map(metadata.get, FACTS))) != alike:
            yield f"{layer_name} says {said} of all members, expected {alike}"
