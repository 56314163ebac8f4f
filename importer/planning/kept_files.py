"""Which layer of a model is which file of its source: named files, and whole models."""

from __future__ import annotations

from collections.abc import Iterable

from importer.planning.plan import FilePlan
from importer.sources.roles import IMATRIX
from store import Layer, MediaType
from store.manifest import WHOLE_TYPES, whole_names


def files_by_name(files: Iterable[FilePlan]) -> dict[str, FilePlan]:
    """Return what becomes of files, by path, and of whole models by the kind of their layer.

    `layers_by_name` finds the layers that they became.
    """
    found, whole = {}, []
    for file in files:
        if file.media_type in WHOLE_TYPES:
            whole.append(file)
        else:
            found[file.name] = file
    names = whole_names(file.media_type for file in whole)
    return found | dict(zip(names, whole, strict=True))


def layers_by_name(layers: Iterable[Layer]) -> dict[str, Layer]:
    """Return the layers of a model that are files of its source, named as `files_by_name`."""
    found, whole = {}, []
    for layer in layers:
        if layer.media_type in WHOLE_TYPES:
            whole.append(layer)
        elif layer.is_file:
            found[layer.name] = layer
        elif layer.media_type == MediaType.IMATRIX:
            found[IMATRIX] = layer
    names = whole_names(layer.media_type for layer in whole)
    return found | dict(zip(names, whole, strict=True))
