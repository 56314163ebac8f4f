"""What ComfyUI quantized: a marker beside each weight says in JSON how.

Its NVFP4 and MXFP8 have the names and shapes of other programs' and other values: scales stand
in the tiles of cuBLAS, and the first of two codes in the upper half of a byte. Facts:
comfy-kitchen 0.2.40, `convert_old_quants` in ComfyUI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from store.json import Json, JsonError, loads
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

_MARKER: Final = "comfy_quant"
_METADATA: Final = "_quantization_metadata"
"""What says the same of all layers of a file."""
_PART: Final = "weight"
"""How the names of all arrays of a weight begin."""
_READ: Final = "float8_"
"""FP8 with scales that are not moved, which another scheme decodes."""
_ROTATED: Final = "convrot"


def leave_comfyui(
    tensors: Sequence[SourceTensor], metadata: Mapping[str, Mapping[str, str]]
) -> Sequence[SourceTensor]:
    """Leave weights as the arrays that they are where they are quantized as ComfyUI alone does.

    Args:
        tensors: every array of a directory, in the order of the files.
        metadata: what each file says about itself, by path.

    Raises:
        InputError: a marker is not JSON.
    """
    by_layer = {
        (path, name): said
        for path, told in metadata.items()
        if _METADATA in told
        for name, said in _layers(told[_METADATA])
    }
    markers = [tensor for tensor in tensors if tensor.name.endswith(f".{_MARKER}")]
    if not markers and not by_layer:
        return tensors
    for marker in markers:
        layer = marker.own_name.removesuffix(f".{_MARKER}")
        by_layer[marker.file.path, layer] = _read(marker)
    return [_left(tensor, by_layer) for tensor in tensors]


def _left(
    tensor: SourceTensor, by_layer: Mapping[tuple[str, str], Mapping[str, Json]]
) -> SourceTensor:
    stem, _, last = tensor.own_name.rpartition(".")
    said = by_layer.get((tensor.file.path, stem))
    if said is None or not last.startswith(_PART):
        return tensor
    form = str(said.get("format"))
    if form.startswith(_READ) and not said.get(_ROTATED):
        return tensor
    return tensor._replace(unjoined=f"ComfyUI quantized it (`{printable(form)}`)")


def _layers(text: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    try:
        told = loads(text.encode(), floats=True)
    except JsonError:
        return
    layers = told.get("layers") if isinstance(told, dict) else None
    for name, said in layers.items() if isinstance(layers, dict) else ():
        if isinstance(said, dict):
            yield name, said


def _read(marker: SourceTensor) -> Mapping[str, Json]:
    from importer.sources.schemes.contents import read_contents  # noqa: PLC0415 - as above
    from importer.sources.schemes.parts import contradict  # noqa: PLC0415

    try:
        said = loads(read_contents(marker), floats=True)
    except JsonError as error:
        contradict(marker, f"is not JSON: {printable(str(error), 200)}")
    if not isinstance(said, dict):
        contradict(marker, "is not a JSON object")
    return said
