"""Which files of a source are kept byte for byte: one predicate for directories and the Hub."""

from __future__ import annotations

from typing import Final

from store import MediaType

_OTHER_WEIGHTS: Final = (
    ".bin",
    ".pt",
    ".pth",
    ".h5",
    ".msgpack",
    ".ot",
    ".onnx",
    ".gguf",
)
_OTHER_DIRECTORIES: Final = frozenset({"onnx", "openvino"})
_LICENSES: Final = ("license", "licence", "copying")


def why_left_out(path: str) -> str | None:  # noqa: PLR0911 - a list of reasons
    """Why the file at a relative path is not kept, or None when it is.

    Safetensors files are left out here too: those that are selected as weights become
    tensors, which is not this predicate's to say.
    """
    *directories, name = path.split("/")
    lower = name.lower()
    if any(part.startswith(".") for part in directories):
        return "in a hidden directory"
    if _OTHER_DIRECTORIES.intersection(directories):
        return "weights in another format"
    if lower.startswith("optimizer."):
        return "optimizer state"
    if is_index(name):
        return "shard index"
    if lower.endswith(".safetensors"):
        return "weights that were not selected"
    if lower.endswith(_OTHER_WEIGHTS):
        return "weights in another format"
    return None


def is_index(name: str) -> bool:
    """Whether a file name is that of a shard index, of whatever format or variant."""
    stem, _, variant = name.removesuffix(".json").rpartition(".index")
    is_weights = stem.lower().endswith((".safetensors", *_OTHER_WEIGHTS))
    return is_weights and name.endswith(".json") and (not variant or variant[0] == ".")


def media_type(path: str) -> MediaType:
    """The media type of a kept file's layer."""
    if path.endswith(".json"):
        return MediaType.JSON
    if "/" not in path and path.lower().startswith(_LICENSES):
        return MediaType.LICENSE
    return MediaType.FILE
