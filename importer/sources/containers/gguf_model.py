"""What GGUF files are to Ollama: layers, and the words of its configuration.

Facts: server/create.go and fs/ggml of Ollama 0.33 (its `createModel`, `isProjectorGGUF`,
`FileType.String`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from importer.codecs.views.swapped import FIELDS
from importer.formats.gguf.header import Header
from importer.formats.gguf.metadata import Value
from importer.sources.file import SourceFile
from importer.sources.whole import WholeLayer, WholeModel
from store import MediaType
from store.errors import UnsupportedError

_FILE_TYPES: Final = {
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
"""`general.file_type`; 0, which is F32, is unknown to Ollama, as every other number."""
_UNKNOWN: Final = "unknown"
_CHATS: Final = {
    "gemma4": ("gemma4", "gemma4"),
    "laguna": ("laguna", "laguna"),
    "nemotron_h": ("nemotron-3-nano", "nemotron-3-nano"),
    "nemotron_h_moe": ("nemotron-3-nano", "nemotron-3-nano"),
    "nemotron_h_omni": ("nemotron-3-nano", "nemotron-3-nano"),
}
"""Renderer and parser that Ollama sets; elsewhere the file's own template decides."""
_ORDER: Final = (MediaType.MODEL, MediaType.ADAPTER, MediaType.PROJECTOR)
_SPLIT: Final = "Ollama loads one file, and it is a split"


def whole_model(files: Mapping[str, SourceFile], headers: Mapping[str, Header]) -> WholeModel:
    """Return what the files of one model become when they are kept whole.

    Args:
        files: of the model, a split's in order, by path.
        headers: of each.

    Raises:
        UnsupportedError: a file is not a model, nor a part of one.
    """
    layers = [WholeLayer(file, layer_type(headers[path], path)) for path, file in files.items()]
    layers.sort(key=lambda layer: _ORDER.index(layer.media_type))
    main = [layer for layer in layers if layer.media_type == layers[0].media_type]
    first = headers[main[0].file.path]
    family = first.text("general.architecture") or _UNKNOWN
    renderer, parser = _CHATS.get(family, ("", ""))
    return WholeModel(
        tuple(layers),
        "gguf",
        family,
        sum(map(parameters, (headers[layer.file.path] for layer in main))),
        file_type(first),
        parser,
        renderer,
        _SPLIT if len(main) > 1 else "",
        next((why for path in files for why in _undefined(headers[path], path)), ""),
    )


def _undefined(header: Header, where: str) -> Iterator[str]:
    """Yield why tensors of a big-endian file cannot be taken out."""
    for tensor in header.tensors if header.is_big else ():
        if not tensor.kind.is_plain and tensor.kind.name not in FIELDS:
            yield (
                f"`{where}` is big-endian, and `{tensor.name}` is {tensor.kind.name}: what "
                "such blocks are in such a file is not defined"
            )


def layer_type(header: Header, where: str) -> MediaType:
    """Return what a file is: a model, a projector or an adapter.

    Raises:
        UnsupportedError: it says that it is something else.
    """
    kind = header.text("general.type")
    if kind == "adapter":
        return MediaType.ADAPTER
    if kind in {"projector", "mmproj"}:
        return MediaType.PROJECTOR
    if kind in {"imatrix", "dataset"}:
        raise UnsupportedError(
            f"`{where}` says that it is of the type `{kind}`, which is not a model",
            code="E_GGUF_KIND",
        )
    family = header.text("general.architecture") or _UNKNOWN
    blocks = header.integer(f"{family}.block_count") or 0
    sees = header.integer(f"{family}.vision.block_count") or 0
    encodes = any(
        isinstance(found, Value) and found.value is True
        for part in ("vision", "audio")
        if (found := header.metadata.get(f"{family}.has_{part}_encoder"))
    )
    is_projector = not blocks and (sees > 0 or (family == "clip" and encodes))
    return MediaType.PROJECTOR if is_projector else MediaType.MODEL


def file_type(header: Header) -> str:
    """Return the name of the type that a file says most of it has."""
    found = header.metadata.get("general.file_type")
    if not isinstance(found, Value) or found.kind != "u32":
        return _UNKNOWN
    return _FILE_TYPES.get(found.integer or 0, _UNKNOWN)


def parameters(header: Header) -> int:
    """Count the elements of all tensors, as Ollama does."""
    return sum(math.prod(tensor.shape) for tensor in header.tensors)
