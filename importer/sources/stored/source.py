"""Read a stored model as a source: its tensors lie in blobs, its files are blobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from importer.codecs.base import Codec, Decoder, Part, Shape
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for
from importer.codecs.scaled.global_scaled import GlobalNvfp4
from importer.codecs.spec import KEEP, QUANT_TYPES, VALUE_DTYPES, QuantSpec
from importer.sources.document import CONFIG, Document, read_document
from importer.sources.file import Identity, SourceFile
from importer.sources.inventory import Inventory, merged, of_contents
from importer.sources.joined import declared
from importer.sources.joining import join, scheme_among
from importer.sources.roles import FileRole, LeftOut
from importer.sources.stored.record import ModelRecord, read_record
from importer.sources.stored.types import (
    block_shape,
    block_type,
    quantized_shape,
    stored_type,
)
from importer.sources.stored.whole import read_whole
from importer.sources.tensor import SourceTensor, StoredArray
from importer.sources.tree import Tree
from store import Layer, Manifest, MediaType, ModelName, Store, limits
from store.catalog import StoredManifest
from store.errors import InputError, IntegrityError, UnsupportedError
from store.json import JsonError, loads
from store.manifest import WHOLE_TYPES
from store.tensorblob import GLOBAL_SCALE, PARTS, SCALE, BlobTensor, read_header, read_tensors
from store.tensorfile import Header
from store.text import printable

_TAKEN: Final = frozenset(
    {MediaType.TENSOR, MediaType.QUALITY, MediaType.IMATRIX, *WHOLE_TYPES}
)
_NOT_TAKEN: Final = "of the model's use, which is not taken over"
_NO_DTYPE: Final = "BF16"
"""Of values whose type's scales do not tell it, in models that do not record it."""


def read_stored(
    store: Store, name: ModelName | StoredManifest, *, apart: bool = True
) -> Inventory:
    """Take the inventory of a stored model; reads headers and documents only.

    What the model's own configuration says of its variant is not taken over: the model has
    one set of weights.

    Args:
        store: that has the model.
        name: of the model, or the manifest that it has or had.
        apart: take tensors out of a file of weights that the model has whole.

    Raises:
        NotFoundError: there is no such model.
        IntegrityError: its manifest or a blob is missing or damaged.
        InputError: a blob's header is malformed.
        UnsupportedError: it holds weights of a type that cannot be read.
    """
    stored = store.catalog.get(name)
    manifest = stored.parse()
    record = read_record(store, manifest.config)
    files = tuple(_files(store, manifest))
    if not record.components:
        record = record._replace(components=tuple(_components(manifest, record, files)))
    components = record.components or ("",)
    configs = {
        file.directory: read_document(file)
        for file in files
        if file.name == CONFIG and file.directory in components
    }
    left_out = [
        LeftOut(layer.name or str(layer.media_type).rpartition(".")[2], _NOT_TAKEN)
        for layer in manifest.layers
        if layer.media_type not in _TAKEN and not layer.is_file and not layer.is_use
    ]
    if any(layer.media_type == MediaType.TENSOR for layer in manifest.layers):
        found = _of_tensors(store, manifest, record, declared(configs, files))
    else:
        whole = read_whole(store, manifest)
        if whole is None:
            raise UnsupportedError("the stored model has no weights", code="E_FORMAT")
        tree = Tree(store.layout.root, (), ())
        found = of_contents(tree, {"": whole}, configs, as_arrays=False, apart=apart)
    return found._replace(
        files=merged(files, found.files),
        left_out=tuple(left_out),
        components=components,
        configs=configs or found.configs,
        model=stored.digest,
        use=tuple(_use(store, manifest)),
        words=_words(store, manifest.config),
        is_stacked=(record.recipe or {}).get("experts") == "stacked",
        is_requantized=_is_requantized(record),
    )


def _is_requantized(record: ModelRecord) -> bool:
    """Return whether a rule asked for a type, or might have in what it was made from."""
    rules = (record.recipe or {}).get("rule")
    kept = isinstance(rules, list) and all(
        isinstance(rule, dict) and rule.get("type") == KEEP for rule in rules
    )
    return record.model is not None or record.is_empty or not kept


def _use(store: Store, manifest: Manifest) -> Iterator[tuple[Layer, bytes]]:
    """Yield what says how the model is used; read now, because its name may be gone later."""
    for layer in manifest.layers:
        if layer.is_use:
            yield layer, store.blobs.read(layer.ref, limits.CONFIG_BYTES)


def _words(store: Store, config: Layer) -> dict[str, str]:
    try:
        document = loads(store.blobs.read(config.ref, limits.CONFIG_BYTES), floats=True)
    except JsonError:
        return {}
    found = document if isinstance(document, dict) else {}
    words = ((key, found.get(key)) for key in ("renderer", "parser", "requires"))
    return {key: word for key, word in words if isinstance(word, str)}


def _components(
    manifest: Manifest, record: ModelRecord, files: Sequence[SourceFile]
) -> Iterator[str]:
    """Yield the directories with weights of what is not a pipeline; no record has them."""
    names = [layer.name for layer in manifest.layers if layer.media_type == MediaType.TENSOR]
    directories = sorted({file.directory for file in files} - {""})
    if record.kind == "sentence":
        yield ""
        for directory in directories:
            if any(name.startswith(f"{directory}/") for name in names):
                yield directory
        return
    # Where the source itself has no weights, one directory may have them all.
    for directory in reversed(directories):
        if names and all(name.startswith(f"{directory}/") for name in names):
            yield directory
            return


def _of_tensors(
    store: Store, manifest: Manifest, record: ModelRecord, configs: Mapping[str, Document]
) -> Inventory:
    """Return the inventory of a model's tensors alone."""
    arrays = list(_tensors(store, manifest, record))
    parts: dict[str, list[SourceTensor]] = {
        component: [] for component in record.components or ("",)
    }
    for array in arrays:
        parts.setdefault(array.component, []).append(array)
    scheme = record.prequantized
    if record.is_empty:  # of another program's model names and dtypes tell
        scheme = scheme_among([array for array in arrays if array.is_plain], configs)
    made = join(parts, configs, {}, as_arrays=scheme is None)
    weights = {array.file.path: array.file for t in arrays for array in t.arrays}
    return Inventory(
        root=store.layout.root,
        tensors=made.tensors,
        files=(),
        weights=tuple(sorted(weights.values(), key=lambda file: file.path)),
        left_out=(),
        components=(),
        configs={},
        notes=made.notes,
        scheme=scheme,
        is_decoded=made.is_decoded,
        metadata=record.metadata or {},
    )


def _tensors(store: Store, manifest: Manifest, record: ModelRecord) -> Iterator[SourceTensor]:
    layers = [layer for layer in manifest.layers if layer.media_type == MediaType.TENSOR]
    found = [(layer, *_read(store, layer)) for layer in layers]
    count = sum(len(tensors) for _, _, _, tensors in found)
    dtypes = iter(record.dtypes(count))
    for layer, file, header, tensors in found:
        for tensor in tensors:
            dtype = next(dtypes) or layer.dtype
            yield _tensor(tensor, dtype, file, header, record.components)


def _read(store: Store, layer: Layer) -> tuple[SourceFile, Header, list[BlobTensor]]:
    file = layer_file(store, layer)
    with store.blobs.open(layer.digest) as blob:
        header = read_header(store, blob, layer.size, f"blob {layer.digest}")
    return file, header, list(read_tensors(layer.name, header))


def _tensor(
    tensor: BlobTensor,
    dtype: str | None,
    file: SourceFile,
    header: Header,
    components: tuple[str, ...],
) -> SourceTensor:
    arrays = tuple(
        StoredArray(
            part.name, part.dtype, part.shape, file, header.nbytes + part.begin, part.nbytes
        )
        for part in (tensor.parts.get(suffix) for suffix in PARTS)
        if part is not None
    )
    inside = (name for name in components if name and tensor.name.startswith(f"{name}/"))
    component = max(inside, key=len, default="")
    weight = tensor.weight
    if tensor.is_blocks:
        kind = block_type(tensor)
        if kind is None:
            raise _unreadable(tensor)
        shape = block_shape(tensor, kind)
        return SourceTensor(tensor.name, shape, arrays, Ggml(kind.name), component)
    if not tensor.is_quantized:
        decoder: Decoder = Plain(weight.dtype)
        return SourceTensor(tensor.name, weight.shape, arrays, decoder, component)
    spec = stored_type(tensor)
    if spec.name not in QUANT_TYPES:
        raise _unreadable(tensor)
    scale = tensor.parts[SCALE].dtype
    values = scale if spec.has_bias else VALUE_DTYPES.get(dtype or _NO_DTYPE, _NO_DTYPE)
    codec: Codec | GlobalNvfp4 = codec_for(spec, values)
    if GLOBAL_SCALE in tensor.parts:
        codec = _with_global_scale(tensor, spec)
    shape = quantized_shape(tensor, spec)
    _check_parts(tensor, codec, shape, arrays)
    return SourceTensor(tensor.name, shape, arrays, codec, component)


def _unreadable(tensor: BlobTensor) -> UnsupportedError:
    said = f" ({printable(tensor.quant_type)})" if tensor.quant_type else ""
    return UnsupportedError(
        f"`{printable(tensor.name)}` is quantized in a way that cannot be read{said}",
        code="E_FORMAT",
    )


def _with_global_scale(tensor: BlobTensor, spec: QuantSpec) -> GlobalNvfp4:
    if spec != QUANT_TYPES["nvfp4"]:
        raise UnsupportedError(
            f"`{printable(tensor.name)}` is {spec} and has a scale of the whole tensor, which "
            "cannot be read",
            code="E_FORMAT",
        )
    return GlobalNvfp4()


def _check_parts(
    tensor: BlobTensor, codec: Codec | GlobalNvfp4, shape: Shape, arrays: Sequence[StoredArray]
) -> None:
    """Refuse arrays that do not belong together: decoding reads where the shapes point."""
    fits = shape[-1] % codec.spec.group_size == 0
    expected = list(map(_form, codec.parts(shape))) if fits else []
    if list(map(_form, arrays)) != expected:
        raise InputError(
            f"`{printable(tensor.name)}`: weights {list(tensor.weight.shape)} and scales do "
            f"not fit each other as {codec.spec.name} in groups of {codec.spec.group_size}",
            code="E_QUANT_PAIR",
        )


def _form(part: Part | StoredArray) -> tuple[str, Shape]:
    # Others may give a number a dimension.
    return part.dtype, part.shape[1:] if part.shape[:1] == (1,) else part.shape


def _files(store: Store, manifest: Manifest) -> Iterator[SourceFile]:
    for layer in manifest.layers:
        if layer.is_file:
            yield layer_file(store, layer, MediaType(layer.media_type))


def layer_file(store: Store, layer: Layer, media_type: MediaType | None = None) -> SourceFile:
    """Return a blob as a file of the source, under the name of its layer.

    Raises:
        IntegrityError: it is missing or has another size.
    """
    if not store.blobs.holds(layer.ref):
        raise IntegrityError(
            f"blob {layer.digest} of `{printable(layer.name)}` is missing or has another size",
            code="E_BLOB_MISSING",
        )
    location = store.blobs.path(layer.digest)
    identity = Identity.of(os.stat(location))
    role = FileRole(media_type=media_type)
    return SourceFile(layer.name, location, identity, role=role, is_blob=True)
