"""What a stored model is, from its manifest, its configuration and its blobs' headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from importer.models.stored_configuration import read_configuration
from importer.sources.carried import carried_prefixes
from importer.sources.configuration import ADAPTER_CONFIG, declared_dtype
from importer.sources.lengths import context_length, embedding_length
from importer.sources.parameters import is_parameter
from importer.sources.stored.record import ModelRecord, record_in
from importer.sources.stored.tensors import StoredTensor, read_layer
from store import Layer, Manifest, MediaType, ModelName, Store, limits
from store.catalog import StoredManifest
from store.errors import IngotError, InputError, in_words
from store.json import Json, JsonError, loads
from store.manifest import WHOLE_TYPES, whole_names
from store.sharing import Sharing, sharing_of
from store.tensorfile import elements

if TYPE_CHECKING:  # few models have whole files, and `show` starts quickly
    from importer.models.whole import MetadataEntry, WholeFile

_FLOAT_TYPES = ("f32", "bf16", "f16")


class Share(NamedTuple):
    """How much of a model something takes.

    Attributes:
        nbytes: of the data, headers not counted.
    """

    name: str
    tensors: int
    nbytes: int


class Description(NamedTuple):
    """Everything that `show` says of a model.

    Attributes:
        stored: the manifest as it was read.
        config: the configuration blob's document.
        record: what ingot noted in it; empty for models of other programs.
        parameters: exact, from shapes; None where they cannot be told.
        tensors: every tensor, sorted bytewise by name.
        dtypes: share of each dtype or quantization type, the largest first.
        components: share of each component of a pipeline, else empty.
        size: bytes of all blobs, each counted once.
        sharing: what the model has alone, and with whom the rest.
        problems: blobs that could not be described, and why.
        metadata: what files of weights say about themselves, in the source or in the store.
        declared_dtype: that config.json names, where the model was given another, or None.
        source: config.json, or what a GGUF file says under the names that it has there.
    """

    stored: StoredManifest
    manifest: Manifest
    config: Mapping[str, Json]
    record: ModelRecord
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
    sharing: Sharing
    problems: tuple[str, ...]
    declared_dtype: str | None
    source: Mapping[str, Json]
    metadata: tuple[MetadataEntry, ...] = ()

    @property
    def name(self) -> ModelName:
        """Of the model."""
        return self.stored.name

    @property
    def is_whole(self) -> bool:
        """Whether it has files of weights as programs load them, and not tensors."""
        return any(layer.media_type in WHOLE_TYPES for layer in self.manifest.layers)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the tensors that hold the parameters, headers not counted."""
        return sum(tensor.nbytes for tensor in _weights(self.tensors, self.manifest))

    def layers(self, media_type: MediaType) -> Iterator[Layer]:
        """Yield the layers of one kind, in order."""
        return (layer for layer in self.manifest.layers if layer.media_type == media_type)


def describe(store: Store, name: ModelName | StoredManifest) -> Description:
    """Describe a model of ours or of Ollama's; only headers and documents are read.

    Raises:
        NotFoundError: there is no such model.
        IntegrityError: its manifest cannot be read.
    """
    named = name if isinstance(name, ModelName) else None
    stored = store.catalog.get(name)
    manifest = stored.parse()
    problems: list[str] = []
    lacking: list[str] = []  # beside the weights
    config: Mapping[str, Json] = {}
    try:
        config = read_configuration(store, manifest.config)
    except (IngotError, OSError) as error:
        lacking.append(in_words(error))
    tensors: list[StoredTensor] = []
    whole = _whole_files(store, manifest, problems)
    for layer in manifest.layers:
        if layer.media_type == MediaType.TENSOR:
            try:
                tensors += read_layer(store, layer)
            except (IngotError, OSError) as error:
                problems.append(in_words(error))
        elif layer.media_type not in WHOLE_TYPES and not store.blobs.holds(layer.ref):
            told = f"{layer.title} (blob {layer.digest}) is missing or has another size"
            lacking.append(told)
    record = record_in(config)
    tensors = sorted(_with_source_dtypes(tensors, record), key=lambda t: t.name.encode())
    source = _source_config(store, manifest)
    is_adapter = any(layer.name == ADAPTER_CONFIG for layer in manifest.layers)
    capabilities = _strings(config.get("capabilities"))
    metadata: tuple[MetadataEntry, ...] = ()
    if whole:
        from importer.models.whole import (  # noqa: PLC0415 - as above
            capabilities_of,
            lengths_of,
            metadata_of,
        )

        tensors += sorted(
            (tensor for file in whole for tensor in file.tensors),
            key=lambda tensor: tensor.name.encode(),
        )
        source = source or lengths_of(whole)
        capabilities = capabilities or list(capabilities_of(whole))
        metadata = tuple(metadata_of(whole))
    elif record.metadata:
        from importer.models.whole import recorded_metadata  # noqa: PLC0415 - as above

        metadata = tuple(recorded_metadata(record.metadata))
    prequantized = record.prequantized
    if record.is_empty:  # of another program's model names and dtypes tell
        from importer.sources.schemes.registry import scheme_of  # noqa: PLC0415 - `show` starts quickly

        prequantized = scheme_of(((tensor.name, tensor.dtype) for tensor in tensors), source)
    is_understood = prequantized is None or not lacking
    if prequantized is not None and not (problems or lacking):
        from importer.models.logical import logical_tensors  # noqa: PLC0415 - as above

        tensors, is_understood = logical_tensors(store, name, tensors)
    return Description(
        stored=stored,
        manifest=manifest,
        config=config,
        record=record,
        architecture=_architecture(config, record, {} if is_adapter else source),
        parameters=_parameters(tensors, manifest, problems) if is_understood else None,
        context_length=_length(config.get("context_length"), source, context_length),
        embedding_length=_length(config.get("embedding_length"), source, embedding_length),
        prequantized=prequantized,
        tensors=tuple(tensors),
        dtypes=tuple(_shares((tensor.type_name, tensor) for tensor in tensors)),
        components=tuple(_components(tensors, record)),
        capabilities=tuple(capabilities),
        size=manifest.nbytes,
        sharing=sharing_of(store.catalog, named, manifest),
        problems=(*problems, *lacking),
        metadata=metadata,
        declared_dtype=_declared_dtype(record, source),
        source=source,
    )


def _whole_files(store: Store, manifest: Manifest, problems: list[str]) -> list[WholeFile]:
    """Read the headers of the files of weights that a model has whole."""
    layers = [layer for layer in manifest.layers if layer.media_type in WHOLE_TYPES]
    if not layers:
        return []
    from importer.models.whole import read_whole_file  # noqa: PLC0415 - `show` starts quickly

    found = []
    names = whole_names(layer.media_type for layer in layers)
    for name, layer in zip(names, layers, strict=True):
        try:
            found.append(read_whole_file(store, name, layer))
        except (IngotError, OSError) as error:
            problems.append(in_words(error))
    return found


def read_text(store: Store, layer: Layer) -> str:
    """Return the text of a layer such as a template or a license."""
    return store.blobs.read(layer.ref, limits.CONFIG_BYTES).decode("utf-8", "replace")


def _source_config(store: Store, manifest: Manifest) -> Mapping[str, Json]:
    for layer in manifest.layers:
        if layer.name == "config.json" and layer.is_file:
            try:
                data = store.blobs.read(layer.ref, limits.CONFIG_BYTES)
                value = loads(data, floats=True, constants=True)
            except (IngotError, OSError, JsonError):
                return {}
            return value if isinstance(value, dict) else {}
    return {}


def _with_source_dtypes(
    tensors: list[StoredTensor], record: ModelRecord
) -> Iterator[StoredTensor]:
    # A plain tensor has the dtype that is stored, whatever it was rounded from.
    for tensor, dtype in zip(tensors, record.dtypes(len(tensors)), strict=True):
        yield tensor._replace(dtype=dtype) if dtype and tensor.quant else tensor


def _architecture(
    config: Mapping[str, Json], record: ModelRecord, source: Mapping[str, Json]
) -> str:
    listed = _strings(source.get("architectures"))
    family = config.get("model_family") or source.get("model_type")
    found = record.architecture or (listed[0] if listed else None) or family
    return found if isinstance(found, str) else ""


def _parameters(
    tensors: list[StoredTensor], manifest: Manifest, problems: list[str]
) -> int | None:
    if not tensors or problems:
        return None
    return sum(elements(tensor.shape) for tensor in _weights(tensors, manifest))


def _weights(tensors: Iterable[StoredTensor], manifest: Manifest) -> Iterator[StoredTensor]:
    """Yield the tensors that hold parameters of the model itself."""
    carried = carried_prefixes({layer.name for layer in manifest.layers if layer.is_file})
    for one in tensors:
        is_carried = bool(carried) and one.name.startswith(carried)
        is_one = one.quant is not None or is_parameter(one.name, one.dtype, one.shape)
        if is_one and not is_carried:
            yield one


def _declared_dtype(record: ModelRecord, source: Mapping[str, Json]) -> str | None:
    """Return the dtype that the kept config.json names, where the model was given another."""
    given = (record.recipe or {}).get("type")
    declared = declared_dtype(source)
    if given not in _FLOAT_TYPES or declared is None or declared.lower() == given:
        return None
    return declared


def _length(
    noted: Json, source: Mapping[str, Json], read: Callable[[Mapping[str, Json]], int | None]
) -> int | None:
    if type(noted) is int and noted > 0:
        return noted
    try:
        return read(source)
    except InputError:
        return None  # another program stored a model that we would not import


def _shares(labelled: Iterator[tuple[str, StoredTensor]]) -> list[Share]:
    found: dict[str, list[int]] = {}
    for label, tensor in labelled:
        total = found.setdefault(label, [0, 0])
        total[0] += 1
        total[1] += tensor.nbytes
    shares = [Share(label, count, nbytes) for label, (count, nbytes) in found.items()]
    return sorted(shares, key=lambda share: (-share.nbytes, share.name))


def _components(tensors: list[StoredTensor], record: ModelRecord) -> list[Share]:
    prefixes = sorted((f"{name}/" for name in record.components), key=len, reverse=True)
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
