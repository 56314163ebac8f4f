"""What a stored model is, from its manifest, its configuration and its blobs' headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from importer.sources.dtypes import is_floating
from importer.sources.schemes import scheme_of
from importer.sources.stored.tensors import StoredTensor, read_layer
from store import Layer, Manifest, MediaType, ModelName, Store, limits
from store.catalog import StoredManifest
from store.errors import IngotError, in_words
from store.json import Json, JsonError, loads
from store.tensorfile import elements

_CONTEXT_KEYS: Final = ("max_position_embeddings", "n_positions", "max_sequence_length")
_EMBEDDING_KEYS: Final = ("hidden_size", "n_embd", "d_model")


class Share(NamedTuple):
    """How much of a model something takes.

    Attributes:
        nbytes: of the data, headers not counted.
    """

    name: str
    tensors: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that `show` says of a model.

    Attributes:
        stored: the manifest as it was read.
        config: the configuration blob's document.
        parameters: exact, from shapes; None where they cannot be told.
        tensors: every tensor, sorted bytewise by name; none for a GGUF model.
        dtypes: share of each dtype or quantization type, the largest first.
        components: share of each component of a pipeline, else empty.
        size: bytes of all blobs, each counted once.
        shared: bytes of those that other models name too.
        problems: blobs that could not be described, and why.
    """

    stored: StoredManifest
    manifest: Manifest
    config: Mapping[str, Json]
    architecture: str
    parameters: int | None
    context_length: int | None
    embedding_length: int | None
    prequantized: str | None
    tensors: tuple[StoredTensor, ...]
    dtypes: tuple[Share, ...]
    components: tuple[Share, ...]
    capabilities: tuple[str, ...]
    size: int
    shared: int
    problems: tuple[str, ...]

    @property
    def name(self) -> ModelName:
        """Of the model."""
        return self.stored.name

    @property
    def ingot(self) -> Mapping[str, Json]:
        """What ingot noted in the configuration; empty for models of others."""
        ours = self.config.get("ingot")
        return ours if isinstance(ours, dict) else {}

    def layers(self, media_type: MediaType) -> Iterator[Layer]:
        """The layers of one kind, in order."""
        return (layer for layer in self.manifest.layers if layer.media_type == media_type)


def describe(store: Store, name: ModelName) -> Description:
    """Describe a model, of ours or of Ollama's; reads headers and documents only.

    Raises:
        NotFoundError: there is no such model.
        IntegrityError: its manifest or configuration cannot be read.
    """
    stored = store.catalog.get(name)
    manifest = stored.parse()
    config = _document(store, manifest.config, constants=False)
    problems: list[str] = []
    tensors: list[StoredTensor] = []
    for layer in manifest.layers:
        if layer.media_type == MediaType.TENSOR:
            try:
                tensors += read_layer(store, layer)
            except (IngotError, OSError) as error:
                problems.append(in_words(error))
        elif not store.blobs.holds(layer.ref):
            problems.append(f"blob {layer.digest} is missing or has another size")
    tensors.sort(key=lambda tensor: tensor.name.encode())
    source = _source_config(store, manifest)
    ours = config.get("ingot")
    prequantized = _prequantized(tensors, source, ours if isinstance(ours, dict) else {})
    return Description(
        stored=stored,
        manifest=manifest,
        config=config,
        architecture=_architecture(config, source),
        parameters=None if prequantized else _parameters(tensors, problems),
        context_length=_length(config, "context_length", source, _CONTEXT_KEYS),
        embedding_length=_length(config, "embedding_length", source, _EMBEDDING_KEYS),
        prequantized=prequantized,
        tensors=tuple(tensors),
        dtypes=tuple(_shares((tensor.type_name, tensor) for tensor in tensors)),
        components=tuple(_components(tensors, config)),
        capabilities=tuple(_strings(config.get("capabilities"))),
        size=manifest.nbytes,
        shared=_shared(store, name, manifest),
        problems=tuple(problems),
    )


def read_text(store: Store, layer: Layer) -> str:
    """Read a layer that is text, such as a template or a license."""
    return store.blobs.read(layer.ref, limits.CONFIG_BYTES).decode("utf-8", "replace")


def _document(store: Store, layer: Layer, *, constants: bool) -> Mapping[str, Json]:
    data = store.blobs.read(layer.ref, limits.CONFIG_BYTES)
    try:
        value = loads(data, floats=True, constants=constants)
    except JsonError:
        return {}
    return value if isinstance(value, dict) else {}


def _source_config(store: Store, manifest: Manifest) -> Mapping[str, Json]:
    for layer in manifest.layers:
        if layer.name == "config.json" and layer.is_file:
            try:
                return _document(store, layer, constants=True)
            except (IngotError, OSError):
                return {}
    return {}


def _prequantized(
    tensors: list[StoredTensor], source: Mapping[str, Json], ours: Mapping[str, Json]
) -> str | None:
    noted = ours.get("prequantized")
    if isinstance(noted, str):
        return noted
    return scheme_of(((tensor.name, tensor.dtype) for tensor in tensors), source)


def _architecture(config: Mapping[str, Json], source: Mapping[str, Json]) -> str:
    ours = config.get("ingot")
    named = ours.get("architecture") if isinstance(ours, dict) else None
    listed = _strings(source.get("architectures"))
    family = config.get("model_family") or source.get("model_type")
    found = named or (listed[0] if listed else None) or family
    return found if isinstance(found, str) else ""


def _parameters(tensors: list[StoredTensor], problems: list[str]) -> int | None:
    if not tensors or problems:
        return None
    floating = (t for t in tensors if t.quant is not None or is_floating(t.dtype))
    return sum(elements(tensor.shape) for tensor in floating)


def _length(
    config: Mapping[str, Json], key: str, source: Mapping[str, Json], keys: tuple[str, ...]
) -> int | None:
    for value in (config.get(key), *(source.get(other) for other in keys)):
        if type(value) is int and value > 0:
            return value
    return None


def _shares(labelled: Iterator[tuple[str, StoredTensor]]) -> list[Share]:
    found: dict[str, list[int]] = {}
    for label, tensor in labelled:
        total = found.setdefault(label, [0, 0])
        total[0] += 1
        total[1] += tensor.nbytes
    shares = [Share(label, count, nbytes) for label, (count, nbytes) in found.items()]
    return sorted(shares, key=lambda share: (-share.nbytes, share.name))


def _components(tensors: list[StoredTensor], config: Mapping[str, Json]) -> list[Share]:
    ours = config.get("ingot")
    names = _strings(ours.get("components")) if isinstance(ours, dict) else []
    prefixes = sorted((f"{name}/" for name in names), key=len, reverse=True)
    return sorted(
        _shares(
            (prefix.rstrip("/"), tensor)
            for tensor in tensors
            for prefix in [next((p for p in prefixes if tensor.name.startswith(p)), "")]
            if prefix
        ),
        key=lambda share: share.name,
    )


def _strings(value: Json) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _shared(store: Store, name: ModelName, manifest: Manifest) -> int:
    others: set[str] = set()
    for entry in store.catalog.entries():
        if entry.name is None or entry.name == name:
            continue
        try:
            found = store.catalog.find(entry.name)
            if found is not None:
                others.update(ref.digest.hex for ref in found.parse().blobs)
        except (IngotError, OSError):
            continue  # that model's trouble; verify tells of it
    return sum(ref.size for ref in set(manifest.blobs) if ref.digest.hex in others)
