"""What each file of a source is to a model: decided once, by its path, and carried with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from importer.sources.naming import Naming, WeightsName
from store import MediaType


class FileRole(NamedTuple):
    """What a file of a source is to a model.

    Attributes:
        media_type: of the layer that a kept file becomes; None for all other files.
        reason: why the file is not kept; empty for a kept file. It holds for weights, too,
            as long as they are not selected.
        format: the key of the format that reads it, for weights and their indexes; or empty.
        unread: the name of its format, for weights in one that is not read; or empty. A kept
            file may have one: beside weights it is data, alone it is what would be lost.
        weights: the name of a weights file or index, taken apart.
        is_alone: whether weights in a format that is not read are those of a whole model,
            and not one more form of weights that lie beside them.
        data_of: the path of the weights file whose values are in this file, by its name.
    """

    media_type: MediaType | None = None
    reason: str = ""
    format: str = ""
    unread: str = ""
    weights: WeightsName | None = None
    is_alone: bool = False
    data_of: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the file becomes a layer, byte for byte."""
        return self.media_type is not None

    @property
    def is_weights(self) -> bool:
        """Whether the file holds tensors in a format that is read; an index holds none."""
        return bool(self.format) and self.weights is not None and not self.weights.is_index


class LeftOut(NamedTuple):
    """Something in the source that does not become part of the model, and why."""

    path: str
    reason: str


class Claimant(Protocol):
    """Anything that recognizes its own files by their names: a `SourceFormat`."""

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take the name of a file apart, or return None for one of another format."""


class _UnreadFormat(NamedTuple):
    """A format of weights that ingot knows by name alone."""

    name: str
    naming: Naming
    is_kept: bool = False


IMATRIX: Final = "importance matrix"
"""What such a file is called among those of a source, wherever it lies."""
OTHER_FORMAT: Final = "weights in another format"
_PYTORCH: Final = ("pytorch_model", "diffusion_pytorch_model", "open_clip_pytorch_model")
_UNREAD: Final = (
    _UnreadFormat("PyTorch", Naming((".bin", ".pt", ".pth", ".ckpt"), _PYTORCH)),
    _UnreadFormat("Keras", Naming((".h5",), ("tf_model",))),
    _UnreadFormat("Flax", Naming((".msgpack",), ("flax_model", "diffusion_flax_model"))),
    _UnreadFormat("rust-bert", Naming((".ot",), ("rust_model",))),
    _UnreadFormat("Keras", Naming((".keras", ".hdf5"))),
    _UnreadFormat("TensorFlow", Naming((".pb", ".tflite", ".ckpt.index", ".ckpt.meta"))),
    _UnreadFormat("NumPy", Naming((".npz",))),
    # Voices, filters and the like: only where there is nothing else are they the weights.
    _UnreadFormat("NumPy", Naming((".npy",)), is_kept=True),
    _UnreadFormat("a pickle", Naming((".pkl", ".pickle", ".joblib", ".dill"))),
    _UnreadFormat("Paddle", Naming((".pdparams", ".pdopt", ".pdiparams", ".pdmodel"))),
    _UnreadFormat("Core ML", Naming((".mlmodel",))),
    _UnreadFormat("NeMo", Naming((".nemo",))),
    _UnreadFormat("TorchServe", Naming((".mar",))),
    _UnreadFormat("TensorRT", Naming((".engine", ".trt", ".plan"))),
    _UnreadFormat("MXNet", Naming((".params",))),
    _UnreadFormat("Caffe", Naming((".caffemodel",))),
    _UnreadFormat("GGML", Naming((".ggml", ".ggjt"))),
    _UnreadFormat("llamafile", Naming((".llamafile",))),
    _UnreadFormat("TorchScript", Naming((".torchscript", ".jit", ".ptl"))),
    _UnreadFormat("ExecuTorch", Naming((".pte",))),
    _UnreadFormat("Torch7", Naming((".t7",))),
    _UnreadFormat("MNN", Naming((".mnn",))),
    _UnreadFormat("RKNN", Naming((".rknn",))),
)
_UNREAD_SUFFIXES: Final = tuple(
    suffix for unread in _UNREAD for suffix in unread.naming.suffixes
)
_KEPT: Final = {media: FileRole(media) for media in MediaType}
_OTHER_DIRECTORIES: Final = frozenset({"onnx", "openvino"})
_BUNDLES: Final = (".mlpackage", ".mlmodelc")
"""Directories that are one model of Core ML each."""
_NOT_WEIGHTS: Final = (
    (re.compile(r"optimizer\..*", re.IGNORECASE), "optimizer state"),
    # Of llama-imatrix; models that were made with one have their type in the name.
    (re.compile(r"(.*[-._])?imatrix\.gguf", re.IGNORECASE), IMATRIX),
    # Of TensorFlow: `variables.index`, `model.ckpt.data-00000-of-00001`.
    (re.compile(r".+\.data-\d{5}-of-\d{5}|variables\.index"), OTHER_FORMAT),
)
"""Names of files that are not weights in a format that has weights, too."""
EXPORTS: Final = "onnx"
"""A directory with the weights of the one that it is in, in the format of that name."""
_DATA: Final = re.compile(r"(?P<graph>.+\.onnx)[._]data([._-]?\d+)*")
"""Names of files with the data of a graph, as optimum, torch and onnx give them."""
_LICENSES: Final = ("license", "licence", "copying")


def role_of(path: str, formats: Mapping[str, Claimant]) -> FileRole:
    """Decide what the file at a relative path is; directories and the Hub ask the same.

    Example:
        >>> role_of("config.json", {}).media_type
        <MediaType.JSON: 'application/vnd.ollama.image.json'>
        >>> role_of("pytorch_model.bin", {}).reason
        'weights in another format'

    Args:
        path: relative to the source, with `/`.
        formats: that are read; the first that claims the file has it.
    """
    *directories, name = path.split("/")
    if any(part.startswith(".") for part in directories):
        return FileRole(reason="in a hidden directory")
    if (role := _beside(path, directories, name, formats)) is not None:
        return role
    for pattern, reason in _NOT_WEIGHTS:
        if pattern.fullmatch(name):
            return FileRole(reason=reason)
    if (role := _claimed(path, None, formats)) is not None:
        return role
    return _unread(path, name) or _KEPT[_media_type(path)]


def _beside(
    path: str, directories: list[str], name: str, formats: Mapping[str, Claimant]
) -> FileRole | None:
    """Return the role of a file of an export, or of its data; None for all others."""
    if ".onnx" in name and (match := _DATA.fullmatch(name)):
        return graph_data("/".join((*directories, match["graph"])))
    if any(directory.endswith(_BUNDLES) for directory in directories):
        return FileRole(reason=OTHER_FORMAT)
    if _OTHER_DIRECTORIES.isdisjoint(directories):
        return None
    is_export = directories[-1] == EXPORTS and _OTHER_DIRECTORIES.isdisjoint(directories[:-1])
    role = _claimed(path, None, formats) if is_export else None
    is_graph = role is not None and role.format == EXPORTS
    return role if is_graph else FileRole(reason=OTHER_FORMAT)


def graph_data(graph: str) -> FileRole:
    """Return the role of a file with the data of an ONNX file at a path."""
    return FileRole(reason="data of an ONNX file that was not selected", data_of=graph)


def role_alone(name: str, head: bytes, formats: Mapping[str, Claimant]) -> FileRole:
    """Decide what a file is that is the whole source: by its content, else by its name.

    Args:
        name: of the file.
        head: its first bytes, as `SourceFormat.claims` takes them.
        formats: that are read; the first that claims the file has it.
    """
    return (
        _claimed(name, head, formats) or _claimed(name, None, formats) or role_of(name, formats)
    )


def _claimed(path: str, head: bytes | None, formats: Mapping[str, Claimant]) -> FileRole | None:
    for key, claimant in formats.items():
        if (named := claimant.claims(path, head)) is not None:
            reason = "shard index" if named.is_index else "weights that were not selected"
            return FileRole(reason=reason, format=key, weights=named)
    return None


def _unread(path: str, name: str) -> FileRole | None:
    """Return the role of weights in a format that is not read, or None for other files."""
    # A source may have 100 000 files: most of them are done here.
    if not name.lower().endswith(_UNREAD_SUFFIXES) and not name.endswith(".json"):
        return None
    for format_ in _UNREAD:
        if (named := format_.naming.parse(name)) is not None:
            if format_.is_kept:
                return FileRole(_media_type(path), unread=format_.name)
            reason = "shard index" if named.is_index else OTHER_FORMAT
            is_alone = named.precedence is not None
            return FileRole(
                reason=reason, unread=format_.name, weights=named, is_alone=is_alone
            )
    return None


def _media_type(path: str) -> MediaType:
    if path.endswith(".json"):
        return MediaType.JSON
    if "/" not in path and path.lower().startswith(_LICENSES):
        return MediaType.LICENSE
    return MediaType.FILE
