"""The files of weights that a stored model has whole, as files of a source."""

from __future__ import annotations

import os
from collections.abc import Iterator

from importer.sources.base import Contents, Selection
from importer.sources.containers import FORMATS
from importer.sources.file import Identity, SourceFile
from importer.sources.naming import WeightsName
from importer.sources.roles import FileRole
from importer.sources.whole import WholeLayer
from store import Layer, Manifest, MediaType, Store
from store.errors import IntegrityError
from store.manifest import WHOLE_TYPES, whole_names

_FORMAT = "gguf"
"""The one format whose files Ollama keeps."""


def whole_layers(manifest: Manifest) -> list[tuple[str, Layer]]:
    """Return the layers that are whole files of weights, each with what to call it."""
    layers = [layer for layer in manifest.layers if layer.media_type in WHOLE_TYPES]
    return list(zip(whole_names(layer.media_type for layer in layers), layers, strict=True))


def whole_file(store: Store, name: str, layer: Layer) -> SourceFile:
    """Return the blob of a layer as a file of a source.

    Raises:
        IntegrityError: it is missing or of another size.
    """
    if not store.blobs.holds(layer.ref):
        raise IntegrityError(
            f"blob {layer.digest} of the {name} is missing or has another size",
            code="E_BLOB_MISSING",
        )
    location = store.blobs.path(layer.digest)
    role = FileRole(format=_FORMAT, weights=WeightsName(name, stands_alone=True))
    identity = Identity.of(os.stat(location))
    return SourceFile(f"{name}.{_FORMAT}", location, identity, role=role, is_blob=True)


def read_whole(store: Store, manifest: Manifest) -> Contents | None:
    """Read the headers of the files that a model has whole, or return None where it has none.

    Raises:
        IntegrityError: a blob is missing or of another size.
        InputError: a header is malformed.
        UnsupportedError: a format, or a kind of it, that is not read.
    """
    found = dict(_files(store, manifest))
    if not found:
        return None
    files = {file.path: file for file, _ in found.items()}
    contents = FORMATS[_FORMAT].read(Selection(_FORMAT, tuple(files)), files, "")
    layers = tuple(WholeLayer(file, media_type) for file, media_type in found.items())
    whole = contents.whole
    assert whole is not None, "the format has whole models"
    return Contents(
        contents.files,
        contents.tensors,
        contents.metadata,
        contents.notes,
        contents.headers,
        whole._replace(layers=layers, why_apart=""),
    )


def _files(store: Store, manifest: Manifest) -> Iterator[tuple[SourceFile, MediaType]]:
    for name, layer in whole_layers(manifest):
        yield whole_file(store, name, layer), MediaType(layer.media_type)
